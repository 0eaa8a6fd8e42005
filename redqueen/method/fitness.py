"""The values that selection ranks by. A fitness maps a member to a number (higher is fitter), or to None if unknown.

`lcb`, `mean_reward` and `learnability` are internal: they depend on the opponents that a member met. `held_out` is
external: its tasks are the same for everyone and for the whole run. An unknown fitness ranks below every known one.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

from redqueen import plugins
from redqueen.method.population import Member

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
    return by_name[name] if name in by_name else plugins.find("fitness", name)


def game_learnability(solve_rates: Sequence[float]) -> float:
    """Returns the mean of 4 rho (1 - rho) over one match's tasks, in [0, 1]; an invalid proposal counts as rho = 0.

    rho (1 - rho) is the variance of one attempt's success: tasks near 1/2 carry the most gradient. It is the
    learnability of Tzannetos et al. 2023 ("Proximal Curriculum for Reinforcement Learning Agents") and Rutherford et
    al. 2024 ("No Regrets"); here it is multiplied by 4, so that the best is 1.

    Raises ValueError if there are no tasks, or a solve rate is outside [0, 1].
    """
    if not solve_rates or not all(0.0 <= rate <= 1.0 for rate in solve_rates):
        raise ValueError(f"solve rates must be in [0, 1] and at least one: {list(solve_rates)}")
    return fmean(4.0 * rate * (1.0 - rate) for rate in solve_rates)
