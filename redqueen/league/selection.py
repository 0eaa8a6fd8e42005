"""Selection: the weakest members of a role are replaced by children of the fittest (docs/EVOLUTION.md).

The paper leaves several rules open. These are used here:

- gamma is not published. The number of places at risk is gamma times the role's size, rounded down, but at least one
  and never the whole role: a role of four at gamma = 0.25 puts one place at risk.
- `survivors` decides who is at risk, by default by truncation. The `elite` fittest are never at risk.
- Burn-in protects a member and not its neighbours: a member at risk that has not played enough stays, and no fitter
  member is replaced instead. A newborn starts low (its bound is 0), so the alternative would replace proven members.
- `parents` draws the parents among those that stay, by default by linear ranking: ranks, because a difference of
  fitnesses has no natural scale; linear, because truncation has already selected. Victims never have children.
- The children of one round are independent: two births may share parents. Operators of a family are equally likely.
- A fitness that is not known yet ranks last. Ties go to the higher mu, then to the name that sorts first.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from redqueen.config import EvolutionConfig
from redqueen.league.fitness import Fitness
from redqueen.league.parents import PARENTS
from redqueen.league.population import Member
from redqueen.league.survivors import SURVIVORS


@dataclass(frozen=True, slots=True)
class Birth:
    """One planned replacement.

    >>> Birth(victim="S3", parents=("S0", "S1"), operator="slot_swap").operator
    'slot_swap'
    """

    victim: str
    """The name of the member that is replaced."""
    parents: tuple[str, ...]
    """One or two names, fitter first."""
    operator: str
    """The operator's name, of the family that fits the number of parents."""


def plan_births(
    members: Sequence[Member], config: EvolutionConfig, fitness: Fitness, rng: random.Random
) -> list[Birth]:
    """Decides one role's replacements and changes nothing: the caller makes the children.

    `members` are all members of the role; their order has no effect. `rng` belongs to this step, role and purpose.
    Returns one birth for each victim, weakest first.

    Raises ValueError if a member occurs twice.
    """
    if len({m.name for m in members}) != len(members):
        raise ValueError("a member occurs twice")
    ranked = ranking(members, fitness)
    victims = _victims(ranked, config, rng)
    # Never empty: at least one member of a role is not at risk, so every child has a parent.
    staying = [member.name for member in ranked if member.name not in victims]

    def birth(victim: str) -> Birth:
        # This number is drawn even if a lone survivor, which is then always the parent, leaves no choice. Skipping it
        # would make every later draw depend on how many members stay.
        crosses = rng.random() < config.crossover and len(staying) > 1
        ranks = PARENTS[config.parents](len(staying), 2 if crosses else 1, config.contestants, rng)
        operator = rng.choice(config.crossovers if crosses else config.mutations)
        # Operators expect the fitter parent first.
        return Birth(victim, tuple(staying[rank] for rank in sorted(ranks)), operator)

    return [birth(victim) for victim in reversed(victims)]


def ranking(members: Sequence[Member], fitness: Fitness) -> list[Member]:
    """Returns the members, fittest first. Ties go to the higher mu, then to the name that sorts first."""

    def key(member: Member) -> tuple[float, float]:
        value = fitness(member)
        return -math.inf if value is None else value, member.rating.mu

    # Names settle the last ties: members without games all have equal keys, and the order of `members` must have no
    # effect. `sorted` is stable, with `reverse` too, so names stay ascending within equal keys.
    return sorted(sorted(members, key=lambda member: member.name), key=key, reverse=True)


def _victims(ranked: Sequence[Member], config: EvolutionConfig, rng: random.Random) -> list[str]:
    """Returns the names of the members that are replaced, fitter first."""
    open_to_risk = max(0, len(ranked) - config.elite)
    places = min(_places(len(ranked), config.gamma), open_to_risk)
    # Ranks count from the fittest outside the elite.
    at_risk = SURVIVORS[config.survivors](open_to_risk, places, config.contestants, rng)
    first = len(ranked) - open_to_risk
    # The filter comes after the choice of ranks: a protected member keeps its place and no other takes the risk.
    return [
        member.name for rank, member in enumerate(ranked[first:]) if rank in at_risk and member.games >= config.burn_in
    ]


def _places(size: int, gamma: float) -> int:
    """Returns how many places of a role are at risk."""
    if gamma == 0.0 or size < 2:
        return 0
    # Without the small term 0.29 * 100, which is 28.999... in floating point, would count as 28.
    return min(size - 1, max(1, math.floor(gamma * size + 1e-9)))
