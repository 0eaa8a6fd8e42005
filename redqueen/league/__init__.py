"""Who plays whom, and who stays: ratings, matchmaking, selection. Pure rules, no torch and no numpy."""

from redqueen.league.matchmaking import Match, Weighting, matchmake
from redqueen.league.rating import Outcome, Rating, TrueSkill, match_score, outcome, task_score
from redqueen.league.selection import Birth, Standing, plan_births
from redqueen.league.table import AnyRole, Member, Table

__all__ = [
    "AnyRole",
    "Birth",
    "Match",
    "Member",
    "Outcome",
    "Rating",
    "Standing",
    "Table",
    "TrueSkill",
    "Weighting",
    "match_score",
    "matchmake",
    "outcome",
    "plan_births",
    "task_score",
]
