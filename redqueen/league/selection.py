"""Who stays: the weakest of a role are replaced by children of the strong (DESIGN section 3, "Evolution").

What the paper leaves open, and what is done here:

- gamma is not published; it is the caller's (config). The number of places at risk is gamma times the role's
  size, rounded down, but at least one and never the whole role: a role of four at gamma = 0.25 puts one place
  at risk.
- Who is at risk is decided by name (`survivors`), default `truncation`; the `elite` fittest never are.
- Burn-in shields a member, not its neighbours: a member at risk that has not played enough stays, and
  nobody higher up dies in its stead. A newborn starts low (its bound is 0), so the alternative would cull
  proven members for it.
- Parents are drawn by name (`parents`) among those that stay, default `rank`. Rank, because a difference of
  fitnesses has no natural scale; linear, because truncation has already selected. Victims never breed.
- Children of one round are independent: two births may share parents. Operators of a family are equally
  likely.
- A fitness that is not known yet ranks last. Ties go to the higher mu, then to the name that sorts first.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from redqueen.league.fitness import Fitness, lcb
from redqueen.league.parents import PARENTS
from redqueen.league.standing import Standing
from redqueen.league.survivors import SURVIVORS


@dataclass(frozen=True, slots=True)
class Birth:
    """One replacement: who goes, the child's parent or parents (fitter first), and the operator's name.

    >>> Birth(victim="s3", parents=("s0", "s1"), operator="slot_swap")
    Birth(victim='s3', parents=('s0', 's1'), operator='slot_swap')
    """

    victim: str
    parents: tuple[str, ...]
    operator: str


def plan_births(
    standings: Sequence[Standing],
    *,
    gamma: float,
    burn_in: int,
    crossover_probability: float,
    mutations: Sequence[str],
    crossovers: Sequence[str],
    rng: random.Random,
    fitness: Fitness | None = None,
    survivors: str = "truncation",
    parents: str = "rank",
    contestants: int = 2,
    elite: int = 0,
) -> list[Birth]:
    """Decide one role's replacements. Changes nothing: the caller makes the children.

    Args:
        standings: every member of the role, in any order (the order has no effect).
        gamma: fraction of the role at risk, in [0, 1]; 0 turns evolution off.
        burn_in: games a member must have played before it can be replaced.
        crossover_probability: chance that a child has two parents. With a single survivor it is always a
            mutation.
        mutations: names of the one-parent operators to choose from.
        crossovers: names of the two-parent operators to choose from.
        rng: the generator of this step, role and purpose.
        fitness: what to rank by; default mu - 3 sigma.
        survivors: `truncation` or `tournament`.
        parents: `rank`, `tournament` or `uniform`.
        contestants: size of a tournament.
        elite: how many of the fittest are never replaced.

    Returns:
        One birth for each victim, weakest first; empty if nobody is to go.

    Raises:
        ValueError: an argument is out of range, a name occurs twice, or an operator family that may be drawn
            is empty.
    """
    _check(standings, gamma, burn_in, crossover_probability, mutations, crossovers)
    if survivors not in SURVIVORS or parents not in PARENTS:
        raise ValueError(f"survivors must be one of {', '.join(SURVIVORS)} and parents one of {', '.join(PARENTS)}")
    if contestants < 1 or elite < 0:
        raise ValueError(f"contestants must be at least 1 and elite at least 0, not {contestants} and {elite}")
    ranked = ranking(standings, fitness or lcb())
    open_to_risk = max(0, len(ranked) - elite)
    places = min(_places(len(ranked), gamma), open_to_risk)
    at_risk = {len(ranked) - open_to_risk + r for r in SURVIVORS[survivors](open_to_risk, places, contestants, rng)}
    victims = [s.member for r, s in enumerate(ranked) if r in at_risk and s.games >= burn_in]
    staying = [s.member for s in ranked if s.member not in victims]

    def birth(victim: str) -> Birth:
        # Drawn even where a lone survivor leaves no choice, so that the rest of the stream does not shift.
        crosses = rng.random() < crossover_probability and len(staying) > 1
        drawn = PARENTS[parents](len(staying), 2 if crosses else 1, contestants, rng)
        return Birth(victim, tuple(staying[r] for r in sorted(drawn)), rng.choice(crossovers if crosses else mutations))

    return [birth(victim) for victim in reversed(victims)]


def ranking(standings: Sequence[Standing], fitness: Fitness) -> list[Standing]:
    """The fittest first; ties as in the module's docstring."""

    def key(standing: Standing) -> tuple[float, float]:
        value = fitness(standing)
        return -math.inf if value is None else value, standing.rating.mu

    # Two stable sorts: names ascending within equal keys.
    return sorted(sorted(standings, key=lambda s: s.member), key=key, reverse=True)


def _places(size: int, gamma: float) -> int:
    if gamma == 0.0 or size < 2:
        return 0
    # The small term: 0.29 * 100 is 28.999... in floating point and means 29.
    return min(size - 1, max(1, math.floor(gamma * size + 1e-9)))


def _check(
    standings: Sequence[Standing],
    gamma: float,
    burn_in: int,
    crossover_probability: float,
    mutations: Sequence[str],
    crossovers: Sequence[str],
) -> None:
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma must be in [0, 1], not {gamma}")
    if burn_in < 0:
        raise ValueError(f"burn_in must be at least 0, not {burn_in}")
    if not 0.0 <= crossover_probability <= 1.0:
        raise ValueError(f"crossover_probability must be in [0, 1], not {crossover_probability}")
    if len({s.member for s in standings}) != len(standings):
        raise ValueError("a member occurs twice in the standings")
    # A role that shrinks to one survivor falls back to mutation, so mutations are always needed.
    if not mutations:
        raise ValueError("no mutations to choose from")
    if crossover_probability > 0.0 and not crossovers:
        raise ValueError("crossover_probability is above zero but there are no crossovers to choose from")
