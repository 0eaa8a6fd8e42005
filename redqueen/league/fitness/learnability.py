"""Fitness `learnability`: how contested the member's games were. Internal, and blind to who won them.

rho (1 - rho) is the variance of one attempt's success: tasks near 1/2 carry the most gradient. It is the learnability
of Tzannetos et al. 2023 ("Proximal Curriculum for Reinforcement Learning Agents") and Rutherford et al. 2024 ("No
Regrets"); here times 4, so that the best is 1.
"""

from collections.abc import Sequence
from statistics import fmean

from redqueen.league.standing import Standing


def game_learnability(rho: Sequence[float]) -> float:
    """The mean of 4 rho (1 - rho) over one game's tasks, in [0, 1]; an invalid proposal counts as rho = 0.

    Raises:
        ValueError: there are no tasks, or a solve rate is outside [0, 1].
    """
    if not rho or not all(0.0 <= rate <= 1.0 for rate in rho):
        raise ValueError(f"solve rates must be in [0, 1] and at least one: {list(rho)}")
    return fmean(4.0 * rate * (1.0 - rate) for rate in rho)


def learnability(standing: Standing) -> float | None:
    """The mean of the latest games' learnabilities, in [0, 1]; None before the first game."""
    return fmean(standing.contested) if standing.contested else None
