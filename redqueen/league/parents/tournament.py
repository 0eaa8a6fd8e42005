"""Parent selection `tournament`: the fittest of a small random group breeds (Goldberg and Deb 1991)."""

from random import Random


def tournament(survivors: int, count: int, contestants: int, rng: Random) -> list[int]:
    """`count` distinct ranks, each the first of `contestants` of those left, or of all where fewer are left."""
    left = list(range(survivors))
    drawn: list[int] = []
    for _ in range(count):
        drawn.append(min(rng.sample(left, min(contestants, len(left)))))
        left.remove(drawn[-1])
    return drawn
