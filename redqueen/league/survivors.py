"""Survivor selection: chooses the ranks of one role that are at risk."""

from collections.abc import Callable
from random import Random

from redqueen.config import SurvivorSelection

Survivors = Callable[[int, int, int, Random], set[int]]
"""(size, places, contestants, generator) -> the ranks at risk, out of 0 (the fittest) to size - 1."""


def truncation(size: int, places: int, contestants: int, rng: Random) -> set[int]:
    """Returns the last `places` ranks (Eiben and Smith 2015, section 5.3). Draws nothing."""
    del contestants, rng
    return set(range(size - places, size))


def tournament(size: int, places: int, contestants: int, rng: Random) -> set[int]:
    """Returns `places` distinct ranks, each the least fit of a random group, so that a weak member may stay.

    A group has `contestants` of the ranks that are left, or all of them if fewer are left.
    """
    # The list stays sorted, so a draw depends on the generator alone. A set's order would be an accident.
    left = list(range(size))
    losers: set[int] = set()
    for _ in range(places):
        loser = max(rng.sample(left, min(contestants, len(left))))
        left.remove(loser)
        losers.add(loser)
    return losers


SURVIVORS: dict[SurvivorSelection, Survivors] = {"truncation": truncation, "tournament": tournament}
