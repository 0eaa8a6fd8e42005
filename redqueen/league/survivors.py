"""Survivor selection: given a ranking of one role, which places are to be replaced."""

from collections.abc import Callable
from random import Random

from redqueen.config import SurvivorSelection

Survivors = Callable[[int, int, int, Random], set[int]]
"""(size, places, contestants, generator) -> the ranks at risk, out of 0 (the fittest) to size - 1."""


def truncation(size: int, places: int, contestants: int, rng: Random) -> set[int]:
    """The last `places` ranks (Eiben and Smith 2015, section 5.3). It draws nothing."""
    del contestants, rng
    return set(range(size - places, size))


def tournament(size: int, places: int, contestants: int, rng: Random) -> set[int]:
    """`places` distinct ranks, each the least fit of a random group, so that a weak member may stay.

    A group has `contestants` of the ranks that are left, or all of them where fewer are left.
    """
    left = list(range(size))
    losers: set[int] = set()
    for _ in range(places):
        loser = max(rng.sample(left, min(contestants, len(left))))
        left.remove(loser)
        losers.add(loser)
    return losers


SURVIVORS: dict[SurvivorSelection, Survivors] = {"truncation": truncation, "tournament": tournament}
