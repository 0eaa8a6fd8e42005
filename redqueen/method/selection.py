"""Selection: the weakest members of a role are replaced by children of the fittest (docs/ALGORITHM.md).

The paper leaves several rules open. These are used here:

- gamma is not published. The number of places at risk is gamma times the role's size, never the whole role: one of
  four at gamma = 0.25. A fraction of a place is one place with that probability: at gamma = 0.35 a role of two puts one
  place at risk in 7 rounds of 10. Rounded up, half of such a role would be replaced in every round.
- `survivors` decides who is at risk, by default by truncation. The `elite` fittest are never at risk.
- A member at risk that is still in burn-in keeps its place, and one member fewer is replaced: if another went in its
  stead, newborns would push out proven members.
- `parents` draws the parents among those that stay, by default by linear ranking: ranks, because a difference of
  fitnesses has no natural scale; linear, because truncation has already selected. Victims never have children.
- The children of one round are independent: two births may share parents. Operators of a family are equally likely.
- A fitness that is not known yet ranks last. Ties go to the higher mean reward, then to a seeded draw. A name decides
  nothing: names follow the order of birth, so they would select by age.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from redqueen.config import EvolutionConfig
from redqueen.method.fitness import Fitness, at_risk, draw_parents, mean_reward
from redqueen.method.population import Member


@dataclass(frozen=True, slots=True)
class Birth:
    """One planned replacement.

    >>> Birth(victim="S3", parents=("S0", "S1"), operator="slot_swap", tie=False).operator
    'slot_swap'
    """

    victim: str
    parents: tuple[str, ...]
    """One or two names, fitter first."""
    operator: str
    """The operator's name, of the family that fits the number of parents."""
    tie: bool
    """Whether a member that stays has the victim's fitness: then mean reward or a draw chose between them."""


def is_evolution_step(step: int, config: EvolutionConfig) -> bool:
    """Returns whether an evolution round, which comes every `evolution.every` steps, follows this step."""
    return step % config.every == 0


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
    ranked = ranking(members, fitness, rng)
    victims = _victims(ranked, config, rng)
    # Never empty: at least one member of a role is not at risk, so every child has a parent.
    staying = [member for member in ranked if member.name not in victims]
    fitness_of = {member.name: fitness(member) for member in ranked}
    staying_fitness = {fitness_of[member.name] for member in staying}

    def birth(victim: str) -> Birth:
        # This number is drawn even if a lone survivor, which is then always the parent, leaves no choice. Skipping it
        # would make every later draw depend on how many members stay.
        crosses = rng.random() < config.crossover and len(staying) > 1
        ranks = draw_parents(config.parents, staying, 2 if crosses else 1, config.contestants, rng)
        operator = rng.choice(config.crossovers if crosses else config.mutations)
        # Operators expect the fitter parent first.
        parents = tuple(staying[rank].name for rank in sorted(ranks))
        return Birth(victim, parents, operator, fitness_of[victim] in staying_fitness)

    return [birth(victim) for victim in reversed(victims)]


def ranking(members: Sequence[Member], fitness: Fitness, rng: random.Random) -> list[Member]:
    """Returns the members, fittest first. Ties go to the higher mean reward, then to a draw from `rng`."""

    def key(member: Member) -> tuple[float, float]:
        return _known(fitness(member)), _known(mean_reward(member))

    # The draw is a shuffle before a stable sort. It starts from the names' order, so that the order of `members` has no
    # effect.
    drawn = sorted(members, key=lambda member: member.name)
    rng.shuffle(drawn)
    return sorted(drawn, key=key, reverse=True)


def _known(value: float | None) -> float:
    """Returns `value`; one that is not known yet is below every other."""
    return -math.inf if value is None else value


def _victims(ranked: Sequence[Member], config: EvolutionConfig, rng: random.Random) -> list[str]:
    """Returns the names of the members that are replaced, fitter first."""
    open_to_risk = max(0, len(ranked) - config.elite)
    places = min(_places(len(ranked), config.gamma, rng), open_to_risk)
    # Ranks count from the fittest outside the elite.
    candidates = ranked[len(ranked) - open_to_risk :]
    chosen = at_risk(config.survivors, candidates, places, config.contestants, rng)
    # The filter comes after the choice of ranks: a protected member keeps its place and no other takes the risk.
    return [
        member.name for rank, member in enumerate(candidates) if rank in chosen and member.matches >= config.burn_in
    ]


def _places(size: int, gamma: float, rng: random.Random) -> int:
    """Returns how many places of a role are at risk: gamma times `size` on average, never all."""
    if size < 2:
        return 0
    # Without the small term 0.29 * 100, which is 28.999... in floating point, would count as 28 and a large fraction.
    expected = gamma * size + 1e-9
    places = math.floor(expected)
    # The number is drawn even where there is no fraction, so that the draws that follow do not depend on the size.
    if rng.random() < expected - places:
        places += 1
    return min(size - 1, places)
