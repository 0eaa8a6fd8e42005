"""Survivor selection `truncation`: the least fit go. Deterministic (Eiben and Smith 2015, section 5.3)."""

from random import Random


def truncation(size: int, places: int, contestants: int, rng: Random) -> set[int]:
    """The last `places` ranks. Draws nothing."""
    del contestants, rng
    return set(range(size - places, size))
