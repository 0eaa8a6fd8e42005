"""The rule of a game: a match is won against par, the level of the run's recent matches (docs/ALGORITHM.md).

Par is kept for each kind of task. It is the mean solve rate of the tasks that were solved at all, over the latest
matches. Whatever the general level is, about half of all matches are above par: both sides can win.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from redqueen import plugins
from redqueen.method.rating import GameResult
from redqueen.plugins import PluginError
from redqueen.records import Kind

SolveRates = Mapping[Kind, Sequence[float]]
"""The solve rates of one match's valid tasks, by kind. A task whose attempts the machine lost is left out."""

Par = Mapping[Kind, float]
"""The solve rate, by kind, that divides games won by the student from games won by the teacher."""

Rule = Callable[[Sequence[SolveRates]], Par]
"""What games are won against, from the run's recent matches, those of the present step among them."""

# A score that equals the band in exact arithmetic is a draw, whichever way its last bit was rounded.
_ROUNDING = 1e-9


def par_of(matches: Sequence[SolveRates]) -> dict[Kind, float]:
    """Returns the mean solve rate of each kind's solved tasks in these matches; a kind without any has no par."""
    # Tasks that were never solved are left out: they may be impossible, and then they say nothing about the level.
    solved: dict[Kind, list[float]] = {}
    for match in matches:
        for kind, rates in match.items():
            solved.setdefault(kind, []).extend(rate for rate in rates if rate > 0.0)
    # The exact sum does not depend on the order of the matches.
    return {kind: math.fsum(rates) / len(rates) for kind, rates in solved.items() if rates}


def half(matches: Sequence[SolveRates]) -> dict[Kind, float]:
    """Returns one half for each kind that was played, whatever the solve rates were."""
    return {kind: 0.5 for match in matches for kind in match}


RULES: dict[str, Rule] = {"par": par_of, "half": half}


def par_by(rule: str, recent: Sequence[SolveRates]) -> Par:
    """Returns what the games of a step are won against, after its matches have joined the `recent` ones.

    Raises PluginError if the rule, which may be a plugin's, leaves out a kind that was solved, or is outside [0, 1].
    """
    if rule in RULES:
        return RULES[rule](recent)
    par: Par = plugins.find("game rule", rule)(recent)
    for kind in par_of(recent):
        if kind not in par or not 0.0 <= par[kind] <= 1.0:
            raise PluginError(f"the game rule '{rule}' gave {dict(par)}: it needs a number in [0, 1] for {kind}")
    return par


def match_score(match: SolveRates, par: Par) -> float:
    """Returns the mean over a match's tasks of solve rate minus par, in [-1, 1]; above 0 the student did better.

    A task that was never solved counts as par: it decides nothing, so impossible tasks do not win games.

    Raises ValueError if there is no task, or a solve rate is outside [0, 1]; KeyError if a solved task's kind has no
    par.
    """
    tasks: list[tuple[Kind, float]] = [(kind, rate) for kind, rates in match.items() for rate in rates]
    if not tasks:
        raise ValueError("a match without a valid task has no score")
    if not all(0.0 <= rate <= 1.0 for _, rate in tasks):
        raise ValueError(f"solve rates must be in [0, 1]: {match}")
    return math.fsum(rate - par[kind] for kind, rate in tasks if rate > 0.0) / len(tasks)


def outcome(score: float, band: float) -> GameResult:
    """Returns who won a match with this score: above `band` the student, below -`band` the teacher, else a draw.

    Raises ValueError if the score is outside [-1, 1].
    """
    if not -1.0 <= score <= 1.0:
        raise ValueError(f"a match's score must be in [-1, 1], not {score}")
    if abs(score) <= band + _ROUNDING:
        return "draw"
    return "student" if score > 0.0 else "teacher"
