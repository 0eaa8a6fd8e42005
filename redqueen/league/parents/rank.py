"""Parent selection `rank`: linear ranking (Baker 1985), the fittest of n with weight n, the last with weight 1."""

from random import Random


def rank(survivors: int, count: int, contestants: int, rng: Random) -> list[int]:
    """`count` distinct ranks, drawn one after the other with weights survivors - rank."""
    del contestants
    left = list(range(survivors))
    drawn: list[int] = []
    for _ in range(count):
        drawn.append(rng.choices(left, [survivors - r for r in left])[0])
        left.remove(drawn[-1])
    return drawn
