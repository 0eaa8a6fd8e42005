"""Who breeds, by name: given a ranking of the survivors, which of them are a child's parents."""

from collections.abc import Callable
from random import Random

from redqueen.league.parents.rank import rank
from redqueen.league.parents.tournament import tournament
from redqueen.league.parents.uniform import uniform

Parents = Callable[[int, int, int, Random], list[int]]
"""(survivors, count, contestants, generator) -> `count` distinct ranks out of 0 (the fittest) to survivors - 1."""

PARENTS: dict[str, Parents] = {"rank": rank, "tournament": tournament, "uniform": uniform}

__all__ = ["PARENTS", "Parents"]
