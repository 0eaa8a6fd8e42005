"""Who is at risk, by name: given a ranking, which places are to be vacated."""

from collections.abc import Callable
from random import Random

from redqueen.league.survivors.tournament import tournament
from redqueen.league.survivors.truncation import truncation

Survivors = Callable[[int, int, int, Random], set[int]]
"""(size, places, contestants, generator) -> the ranks at risk, out of 0 (the fittest) to size - 1."""

SURVIVORS: dict[str, Survivors] = {"truncation": truncation, "tournament": tournament}

__all__ = ["SURVIVORS", "Survivors"]
