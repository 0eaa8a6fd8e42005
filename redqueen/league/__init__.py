"""Who plays whom, and who stays: ratings, matchmaking, selection. Pure rules, no torch and no numpy."""

from redqueen.league.fitness import FITNESS, Fitness, Probe, game_learnability, lcb, named_fitness
from redqueen.league.hall_of_fame import Champion, champion, invite
from redqueen.league.matchmaking import Match, Weighting, matchmake
from redqueen.league.parents import PARENTS
from redqueen.league.population import AnyRole, Member, Table
from redqueen.league.rating import Outcome, Rating, TrueSkill, match_score, outcome, task_score
from redqueen.league.selection import Birth, plan_births, ranking
from redqueen.league.standing import Standing
from redqueen.league.survivors import SURVIVORS

__all__ = [
    "FITNESS",
    "PARENTS",
    "SURVIVORS",
    "AnyRole",
    "Birth",
    "Champion",
    "Fitness",
    "Match",
    "Member",
    "Outcome",
    "Probe",
    "Rating",
    "Standing",
    "Table",
    "TrueSkill",
    "Weighting",
    "champion",
    "game_learnability",
    "invite",
    "lcb",
    "match_score",
    "matchmake",
    "named_fitness",
    "outcome",
    "plan_births",
    "ranking",
    "task_score",
]
