"""Survivor selection `tournament`: the loser of a small random group goes, so that a weak member may stay."""

from random import Random


def tournament(size: int, places: int, contestants: int, rng: Random) -> set[int]:
    """`places` distinct ranks, each the last of `contestants` of those left, or of all where fewer are left."""
    left = list(range(size))
    losers: set[int] = set()
    for _ in range(places):
        loser = max(rng.sample(left, min(contestants, len(left))))
        left.remove(loser)
        losers.add(loser)
    return losers
