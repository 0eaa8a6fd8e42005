"""Who plays whom: prioritised fictitious self-play over predicted results (PFSP; DESIGN section 3).

The weights follow AlphaStar (Vinyals et al. 2019, "Prioritized fictitious self-play"), with p the predicted
probability that the *student* wins.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from redqueen.league.rating import Rating, TrueSkill

Weighting = Literal["balanced", "hard", "uniform", "round_robin"]
"""How it is decided who meets whom."""

# Both probabilities are passed, each exact in its own tail: 1 - p would be zero long before the chance is.
_WEIGHTS: dict[str, Callable[[float, float], float]] = {
    "balanced": lambda student, teacher: student * teacher,
    "hard": lambda student, teacher: teacher,
}


@dataclass(frozen=True, slots=True)
class Match:
    """One teacher paired with one student for one step; both are member names.

    >>> Match(teacher="t0", student="s3")
    Match(teacher='t0', student='s3')
    """

    teacher: str
    student: str


def matchmake(
    teachers: Mapping[str, Rating],
    students: Mapping[str, Rating],
    *,
    weighting: Weighting,
    trueskill: TrueSkill,
    rng: random.Random,
    step: int = 0,
    matches: int | None = None,
) -> list[Match]:
    """Draw one step's matches.

    In a round every member of the larger role plays exactly once and every member of the smaller role at
    least half of its share, rounded up: ceil(L / 2S) games for roles of L and S, so everyone plays. The larger role
    comes in random order; while members of the smaller role are owed games, the opponent is drawn from those that
    have played least, afterwards from all of them. With T = S a round is a permutation.

    Weights, with p the predicted probability that the student wins:
        balanced: p (1 - p), pairs whose result is open.
        hard: 1 - p, seen from the student: it meets the teachers it is likely to lose to.
        uniform: 1, ratings ignored.
    If every candidate's weight is zero, the draw is uniform.

    `round_robin` draws nothing: in round n the i-th member of the larger role meets number i + n (modulo S) of the
    smaller. S rounds in a row hold each pair exactly once.

    Args:
        teachers: rating by member name.
        students: rating by member name.
        weighting: one of the four names.
        trueskill: predicts results.
        rng: the step's generator. The result depends only on it, on `step` and on the mappings, including their order.
        step: the step's number; only `round_robin` looks at it.
        matches: how many; default max(T, S). More than that starts another round, the last one cut short. The
            single-agent baseline (one name, in both roles) simply repeats its only pair.

    Returns:
        The matches in the order drawn. A pair may occur more than once only where a further round repeats it.

    Raises:
        ValueError: an empty role, an unknown weighting, or too few matches for everyone to play.
    """
    if not teachers or not students:
        raise ValueError("each role needs at least one member")
    if weighting not in get_args(Weighting):
        raise ValueError(f"unknown weighting {weighting!r}; one of {sorted(get_args(Weighting))}")
    least = max(len(teachers), len(students))
    wanted = least if matches is None else matches
    if wanted < least:
        raise ValueError(f"{wanted} matches leave members without a game; at least {least} are needed")

    teachers_draw = len(teachers) >= len(students)
    drawers, pool = (teachers, students) if teachers_draw else (students, teachers)

    def weights(drawer: str, candidates: Sequence[str]) -> list[float]:
        if weighting not in _WEIGHTS:
            return [1.0] * len(candidates)
        own, weigh = drawers[drawer], _WEIGHTS[weighting]
        chances = trueskill.win_probabilities((own, pool[other]) for other in candidates)
        return [weigh(theirs, ours) for ours, theirs in chances] if teachers_draw else [weigh(*c) for c in chances]

    drawn: list[tuple[str, str]] = []
    rounds = math.ceil(wanted / least)
    for number in range(step * rounds, (step + 1) * rounds):
        if weighting == "round_robin":
            drawn += _rotation(list(drawers), list(pool), number)
        else:
            drawn += _round(list(drawers), list(pool), weights, rng)
    return [Match(a, b) if teachers_draw else Match(b, a) for a, b in drawn[:wanted]]


def _rotation(drawers: Sequence[str], pool: Sequence[str], number: int) -> list[tuple[str, str]]:
    return [(name, pool[(i + number) % len(pool)]) for i, name in enumerate(drawers)]


def _round(
    drawers: list[str], pool: list[str], weights: Callable[[str, Sequence[str]], list[float]], rng: random.Random
) -> list[tuple[str, str]]:
    # Random order, because those who draw late find fewer opponents left.
    rng.shuffle(drawers)
    owed = math.ceil(len(drawers) / (2 * len(pool)))
    waiting: list[str] = []
    drawn: list[tuple[str, str]] = []
    for drawer in drawers:
        if not waiting and owed:
            waiting, owed = list(pool), owed - 1
        candidates = waiting or pool
        index = _draw(weights(drawer, candidates), rng)
        drawn.append((drawer, candidates[index]))
        if waiting:
            waiting.pop(index)
    return drawn


def _draw(weights: list[float], rng: random.Random) -> int:
    if not sum(weights) > 0.0:
        weights = [1.0] * len(weights)
    return rng.choices(range(len(weights)), weights)[0]
