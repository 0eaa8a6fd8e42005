"""Parent selection: draws a child's parents from the ranks of the survivors."""

from collections.abc import Callable
from random import Random

from redqueen.config import ParentSelection

Parents = Callable[[int, int, int, Random], list[int]]
"""(survivors, count, contestants, generator) -> `count` distinct ranks out of 0 (the fittest) to survivors - 1."""


def rank(survivors: int, count: int, contestants: int, rng: Random) -> list[int]:
    """Draws by linear ranking (Baker 1985): of n survivors the fittest has weight n and the last has weight 1."""
    del contestants
    left = list(range(survivors))
    parents: list[int] = []
    # Without replacement: a crossover of a member with itself would be a copy. The weights of those left stay.
    for _ in range(count):
        parents.append(rng.choices(left, [survivors - r for r in left])[0])
        left.remove(parents[-1])
    return parents


def tournament(survivors: int, count: int, contestants: int, rng: Random) -> list[int]:
    """Draws each parent as the fittest of a random group of `contestants`, or of all if fewer are left.

    Goldberg and Deb 1991, "A comparative analysis of selection schemes used in genetic algorithms".
    """
    left = list(range(survivors))
    parents: list[int] = []
    for _ in range(count):
        parents.append(min(rng.sample(left, min(contestants, len(left)))))
        left.remove(parents[-1])
    return parents


def uniform(survivors: int, count: int, contestants: int, rng: Random) -> list[int]:
    """Draws every survivor with equal probability, so that only survivor selection exerts pressure."""
    del contestants
    return rng.sample(range(survivors), count)


PARENTS: dict[ParentSelection, Parents] = {"rank": rank, "tournament": tournament, "uniform": uniform}
