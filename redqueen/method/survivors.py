"""Survivor selection: chooses the ranks of one role that are at risk."""

from collections.abc import Callable, Sequence
from random import Random

from redqueen import plugins
from redqueen.config import ConfigError
from redqueen.method.population import Member

Survivors = Callable[[Sequence[Member], int, int, Random], set[int]]
"""(members, places, contestants, generator) -> the ranks at risk, `places` of them. Members come fittest first, so 0 is
the rank of the fittest. All randomness comes from the generator."""


def truncation(members: Sequence[Member], places: int, contestants: int, rng: Random) -> set[int]:
    """Returns the last `places` ranks (Eiben and Smith 2015, section 5.3). Draws nothing."""
    del contestants, rng
    return set(range(len(members) - places, len(members)))


def tournament(members: Sequence[Member], places: int, contestants: int, rng: Random) -> set[int]:
    """Returns `places` distinct ranks, each the least fit of a random group, so that a weak member may stay.

    A group has `contestants` of the ranks that are left, or all of them if fewer are left.
    """
    # The list stays sorted, so a draw depends on the generator alone. A set's order would be an accident.
    remaining = list(range(len(members)))
    losers: set[int] = set()
    for _ in range(places):
        loser = max(rng.sample(remaining, min(contestants, len(remaining))))
        remaining.remove(loser)
        losers.add(loser)
    return losers


SURVIVORS: dict[str, Survivors] = {"truncation": truncation, "tournament": tournament}


def at_risk(name: str, members: Sequence[Member], places: int, contestants: int, rng: Random) -> set[int]:
    """Returns the ranks that the rule called `name`, ours or a plugin's, puts at risk.

    Raises ConfigError if they are not `places` different ranks.
    """
    if name in SURVIVORS:
        return SURVIVORS[name](members, places, contestants, rng)
    ranks: set[int] = set(plugins.find("survivor rule", name)(members, places, contestants, rng))
    if len(ranks) != places or not ranks <= set(range(len(members))):
        raise ConfigError(
            f"the survivor rule '{name}' gave {ranks}: it needs {places} of the ranks below {len(members)}"
        )
    return ranks
