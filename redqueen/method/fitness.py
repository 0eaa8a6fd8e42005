"""What selection ranks by, and how it draws from the ranks: a fitness maps a member to a number, or None.

`lcb`, `mean_reward` and `learnability` are internal: they depend on the opponents that a member met. `held_out` is
external: its tasks are the same for everyone and for the whole run. An unknown fitness ranks below every known one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import fmean

from redqueen import plugins
from redqueen.method.population import Member
from redqueen.plugins import PluginError

Fitness = Callable[[Member], float | None]


def lcb(k: float) -> Fitness:
    """Returns the lower confidence bound mu - k sigma of the member's rating, in rating points.

    k = 0 is mu itself. k = 3 is what TrueSkill's leaderboards show (Herbrich et al. 2006); here it would select by age,
    as a newborn has the widest sigma (docs/ALGORITHM.md).
    """
    return lambda member: member.rating.lcb(k)


def mean_reward(member: Member) -> float | None:
    """Returns the mean reward of the latest matches, in reward units, each match counting once.

    Returns None before the first match.
    """
    return fmean(member.rewards) if member.rewards else None


def learnability(member: Member) -> float | None:
    """Returns the mean learnability of the latest matches, in [0, 1], regardless of who won; None before the first."""
    return fmean(member.learnability) if member.learnability else None


def held_out(member: Member) -> float | None:
    """Returns the latest held-out score, in [0, 1]; None before the first."""
    return member.held_out


def named_fitness(name: str, k: float = 0.0) -> Fitness:
    """Returns the fitness called `name`, ours or a plugin's; `k` is the number of sigmas that `lcb` subtracts."""
    by_name: dict[str, Fitness] = {
        "lcb": lcb(k),
        "mean_reward": mean_reward,
        "learnability": learnability,
        "held_out": held_out,
    }
    if name in by_name:
        return by_name[name]
    own: Fitness = plugins.find("fitness", name)
    return lambda member: _checked(name, own(member))


def _checked(name: str, value: float | None) -> float | None:
    """Returns what a plugin's fitness gave. Raises PluginError if it is neither None nor a finite number."""
    return None if value is None else plugins.finite("fitness", name, value)


def game_learnability(solve_rates: Sequence[float]) -> float:
    """Returns the mean of 4 rho (1 - rho) over one match's tasks, in [0, 1]; an invalid one counts as 0 for a teacher.

    rho (1 - rho) is the variance of one attempt's success: tasks near 1/2 carry the most gradient. It is the
    learnability of Tzannetos et al. 2023 ("Proximal Curriculum for Reinforcement Learning Agents") and Rutherford et
    al. 2024 ("No Regrets"); here it is multiplied by 4, so that the best is 1.

    Raises ValueError if there are no tasks, or a solve rate is outside [0, 1].
    """
    if not solve_rates or not all(0.0 <= rate <= 1.0 for rate in solve_rates):
        raise ValueError(f"solve rates must be in [0, 1] and at least one: {list(solve_rates)}")
    return fmean(4.0 * rate * (1.0 - rate) for rate in solve_rates)


# Draws from the ranks of a role's members: who is at risk (survivor selection), and who is a parent of a child.

Survivors = Callable[[Sequence[Member], int, int, Random], set[int]]
"""(members, places, contestants, generator) -> the ranks at risk, `places` of them. Members come fittest first, so 0 is
the rank of the fittest. All randomness comes from the generator."""


def truncation(members: Sequence[Member], places: int, contestants: int, rng: Random) -> set[int]:
    """Returns the last `places` ranks (Eiben and Smith 2015, section 5.3). Draws nothing."""
    del contestants, rng
    return set(range(len(members) - places, len(members)))


def weakest_of_groups(members: Sequence[Member], places: int, contestants: int, rng: Random) -> set[int]:
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


SURVIVORS: dict[str, Survivors] = {"truncation": truncation, "tournament": weakest_of_groups}


def at_risk(name: str, members: Sequence[Member], places: int, contestants: int, rng: Random) -> set[int]:
    """Returns the ranks that the rule called `name`, ours or a plugin's, puts at risk.

    Raises PluginError if they are not `places` different ranks.
    """
    if name in SURVIVORS:
        return SURVIVORS[name](members, places, contestants, rng)
    ranks: set[int] = set(plugins.find("survivor rule", name)(members, places, contestants, rng))
    if len(ranks) != places or not ranks <= set(range(len(members))):
        raise PluginError(
            f"the survivor rule '{name}' gave {ranks}: it needs {places} of the ranks below {len(members)}"
        )
    return ranks


Parents = Callable[[Sequence[Member], int, int, Random], list[int]]
"""(survivors, count, contestants, generator) -> `count` distinct ranks of survivors, which come fittest first: 0 is the
rank of the fittest. All randomness comes from the generator."""


def rank(survivors: Sequence[Member], count: int, contestants: int, rng: Random) -> list[int]:
    """Draws by linear ranking (Baker 1985): of n survivors the fittest has weight n and the last has weight 1."""
    del contestants
    size = len(survivors)
    remaining = list(range(size))
    parents: list[int] = []
    # Without replacement: a crossover of a member with itself would be a copy. Those that are left keep their weights.
    for _ in range(count):
        parents.append(rng.choices(remaining, [size - r for r in remaining])[0])
        remaining.remove(parents[-1])
    return parents


def fittest_of_groups(survivors: Sequence[Member], count: int, contestants: int, rng: Random) -> list[int]:
    """Draws each parent as the fittest of a random group of `contestants`, or of all if fewer are left.

    Goldberg and Deb 1991, "A comparative analysis of selection schemes used in genetic algorithms".
    """
    remaining = list(range(len(survivors)))
    parents: list[int] = []
    for _ in range(count):
        parents.append(min(rng.sample(remaining, min(contestants, len(remaining)))))
        remaining.remove(parents[-1])
    return parents


def uniform(survivors: Sequence[Member], count: int, contestants: int, rng: Random) -> list[int]:
    """Draws every survivor with equal probability, so that only survivor selection exerts pressure."""
    del contestants
    return rng.sample(range(len(survivors)), count)


PARENTS: dict[str, Parents] = {"rank": rank, "tournament": fittest_of_groups, "uniform": uniform}


def draw_parents(name: str, survivors: Sequence[Member], count: int, contestants: int, rng: Random) -> list[int]:
    """Returns the ranks that the rule called `name`, ours or a plugin's, draws.

    Raises PluginError if they are not `count` different ranks.
    """
    if name in PARENTS:
        return PARENTS[name](survivors, count, contestants, rng)
    ranks: list[int] = list(plugins.find("parent rule", name)(survivors, count, contestants, rng))
    if len(ranks) != count or len(set(ranks)) != count or not set(ranks) <= set(range(len(survivors))):
        raise PluginError(
            f"the parent rule '{name}' gave {ranks}: it needs {count} different ranks below {len(survivors)}"
        )
    return ranks
