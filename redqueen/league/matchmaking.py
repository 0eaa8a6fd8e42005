"""Who plays whom: prioritised fictitious self-play over predicted results (PFSP; DESIGN section 3).

The weights follow AlphaStar (Vinyals et al. 2019, "Prioritized fictitious self-play"), with p the predicted
probability that the *student* wins.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from redqueen.league.rating import Rating, TrueSkill

Weighting = Literal["balanced", "hard", "uniform"]
"""How a pair's chance to meet depends on its predicted result."""

# Both probabilities are passed, each exact in its own tail: 1 - p would be zero long before the chance is.
_WEIGHTS: dict[str, Callable[[float, float], float]] = {
    "balanced": lambda student, teacher: student * teacher,
    "hard": lambda student, teacher: teacher,
    "uniform": lambda student, teacher: 1.0,
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
    matches: int | None = None,
) -> list[Match]:
    """Draw one step's matches.

    In a round every member of the larger role plays exactly once and every member of the smaller role at
    least once. The larger role comes in random order; while the smaller role still has members that have not
    played, the opponent is drawn from those, afterwards from all of them. With T = S a round is a
    permutation.

    Weights, with p the predicted probability that the student wins:
        balanced: p (1 - p), pairs whose result is open.
        hard: 1 - p, seen from the student: it meets the teachers it is likely to lose to.
        uniform: 1, ratings ignored.
    If every candidate's weight is zero, the draw is uniform.

    Args:
        teachers: rating by member name.
        students: rating by member name.
        weighting: one of the three names.
        trueskill: predicts results.
        rng: the step's generator. The result depends only on it and on the mappings, including their order.
        matches: how many; default max(T, S). More than that starts another round, the last one cut short. The
            single-agent baseline (one name, in both roles) simply repeats its only pair.

    Returns:
        The matches in the order drawn. A pair may occur more than once only where a further round repeats it.

    Raises:
        ValueError: an empty role, an unknown weighting, or too few matches for everyone to play.
    """
    if not teachers or not students:
        raise ValueError("each role needs at least one member")
    if weighting not in _WEIGHTS:
        raise ValueError(f"unknown weighting {weighting!r}; one of {sorted(_WEIGHTS)}")
    least = max(len(teachers), len(students))
    wanted = least if matches is None else matches
    if wanted < least:
        raise ValueError(f"{wanted} matches leave members without a game; at least {least} are needed")

    def weight(match: Match) -> float:
        teacher, student = teachers[match.teacher], students[match.student]
        return _WEIGHTS[weighting](
            trueskill.win_probability(student, teacher), trueskill.win_probability(teacher, student)
        )

    drawn: list[Match] = []
    while len(drawn) < wanted:
        drawn += _round(list(teachers), list(students), weight, rng)
    return drawn[:wanted]


def _round(
    teachers: list[str], students: list[str], weight: Callable[[Match], float], rng: random.Random
) -> list[Match]:
    teachers_draw = len(teachers) >= len(students)
    drawers, pool = (teachers, students) if teachers_draw else (students, teachers)
    # Random order, because those who draw late find fewer opponents left.
    rng.shuffle(drawers)
    unplayed = list(pool)
    drawn: list[Match] = []
    for drawer in drawers:
        candidates = unplayed or pool
        pairs = [Match(drawer, other) if teachers_draw else Match(other, drawer) for other in candidates]
        index = _draw([weight(pair) for pair in pairs], rng)
        drawn.append(pairs[index])
        if unplayed:
            unplayed.pop(index)
    return drawn


def _draw(weights: list[float], rng: random.Random) -> int:
    if not sum(weights) > 0.0:
        weights = [1.0] * len(weights)
    return rng.choices(range(len(weights)), weights)[0]
