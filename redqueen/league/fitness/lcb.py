"""Fitness `lcb`: the rating's lower confidence bound. Internal: it is relative to the opponents of the day."""

from collections.abc import Callable

from redqueen.league.standing import Standing


def lcb(k: float = 3.0) -> Callable[[Standing], float]:
    """mu - k sigma in rating points; k = 3 is what TrueSkill's leaderboards show (Herbrich et al. 2006)."""
    return lambda standing: standing.rating.lcb(k)
