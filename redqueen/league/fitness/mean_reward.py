"""Fitness `mean_reward`: what the member was paid. Internal: the pay depends on the opponents."""

from statistics import fmean

from redqueen.league.standing import Standing


def mean_reward(standing: Standing) -> float | None:
    """The mean over the latest games of the mean reward in each, in reward units; None before the first game."""
    return fmean(standing.rewards) if standing.rewards else None
