"""Parent selection `uniform`: every survivor alike, so that only survivor selection exerts pressure."""

from random import Random


def uniform(survivors: int, count: int, contestants: int, rng: Random) -> list[int]:
    """`count` distinct ranks, uniform."""
    del contestants
    return rng.sample(range(survivors), count)
