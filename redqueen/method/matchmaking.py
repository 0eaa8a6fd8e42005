"""Draws the matches of a step: prioritised fictitious self-play (PFSP) over predicted results.

The weights follow AlphaStar (Vinyals et al. 2019, "Prioritized fictitious self-play"), with p the predicted
probability that the *student* wins.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from redqueen import plugins
from redqueen.method.rating import Rating, TrueSkill
from redqueen.plugins import PluginError


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """What is known of a teacher and a student before they play."""

    teacher: Rating
    student: Rating
    # Each probability is exact in its own tail. 1 - p would round to zero long before the other probability does, and
    # hopeless pairs would then all weigh the same.
    teacher_wins: float
    """The predicted probability that the teacher wins, without draws."""
    student_wins: float


Weight = Callable[[Odds], float]
"""How much a pair is wanted, in any unit: 0 or more."""


def balanced(odds: Odds) -> float:
    """Returns p (1 - p): pairs whose result is open."""
    return odds.student_wins * odds.teacher_wins


def hard(odds: Odds) -> float:
    """Returns 1 - p, seen from the student: it meets the teachers that it is likely to lose to."""
    return odds.teacher_wins


def uniform(odds: Odds) -> float:
    """Returns 1: ratings are ignored."""
    del odds
    return 1.0


ROUND_ROBIN = "round_robin"
WEIGHTS: dict[str, Weight] = {"balanced": balanced, "hard": hard, "uniform": uniform}


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One teacher paired with one student for one step.

    >>> Match(id="7.0", teacher="T0", student="S3").student
    'S3'
    """

    id: str
    """The step and the position in it; the ids of the match's proposals and tasks start with it."""
    teacher: str
    """A member's or a champion's name."""
    student: str
    """A member's or a champion's name."""


def numbered(pairs: Iterable[tuple[str, str]], step: int) -> list[Match]:
    """Returns the matches of a step from its pairs (teacher, student), with the ids "7.0", "7.1" and so on."""
    return [
        Match(id=f"{step}.{position}", teacher=teacher, student=student)
        for position, (teacher, student) in enumerate(pairs)
    ]


def matchmake(
    teachers: Mapping[str, Rating],
    students: Mapping[str, Rating],
    *,
    weighting: str,
    trueskill: TrueSkill,
    rng: random.Random,
    step: int = 1,
) -> list[Match]:
    """Draws one step's matches between `teachers` and `students`, ratings by member name.

    In a round every member of the larger role plays exactly once and every member of the smaller role at least
    ceil(L / 2S) times, half of its share, where L and S are the sizes of the roles. So everyone plays. The larger role
    comes in random order. While members of the smaller role are owed games, the opponent is drawn from those that have
    played least, afterwards from all of them. With T = S a round is a permutation.

    `weighting` names a weight of a pair (`WEIGHTS`, or a plugin's), in which p is the predicted probability that the
    student wins. If every candidate's weight is zero, the draw is uniform. `round_robin` draws nothing: in round n the
    i-th member of the larger role meets number i + n (modulo S) of the smaller. S rounds in a row hold each pair once.

    Returns max(T, S) matches in the order in which they were drawn, which also numbers them. The result depends only on
    `rng`, on `step` and on the mappings, including their order.

    Raises ValueError if a role is empty, PluginError if there is no such weighting or if it gives what is no weight.
    """
    if not teachers or not students:
        raise ValueError("each role needs at least one member")

    # The larger role draws its opponents from the smaller one. Each of its members then plays once, and only the
    # smaller role needs a rule that keeps its games even.
    teachers_draw = len(teachers) >= len(students)
    drawers, pool = (teachers, students) if teachers_draw else (students, teachers)

    weigh = uniform if weighting == ROUND_ROBIN else named_weight(weighting)

    def weights(drawer: str, candidates: Sequence[str]) -> list[float]:
        chances = trueskill.win_probabilities((drawers[drawer], pool[other]) for other in candidates)
        weighed: list[float] = []
        for other, (drawer_wins, other_wins) in zip(candidates, chances, strict=True):
            sides = [(drawers[drawer], drawer_wins), (pool[other], other_wins)]
            (teacher, teacher_wins), (student, student_wins) = sides if teachers_draw else reversed(sides)
            odds = Odds(teacher=teacher, student=student, teacher_wins=teacher_wins, student_wins=student_wins)
            weighed.append(weigh(odds))
        return weighed

    if weighting == ROUND_ROBIN:
        pairs = _rotation(list(drawers), list(pool), step - 1)
    else:
        pairs = _round(list(drawers), list(pool), weights, rng)
    if not teachers_draw:
        pairs = [(teacher, student) for student, teacher in pairs]
    return numbered(pairs, step)


def named_weight(name: str) -> Weight:
    """Returns the weight called `name`, ours or a plugin's."""
    if name in WEIGHTS:
        return WEIGHTS[name]
    own: Weight = plugins.find("matchmaking", name)
    return lambda odds: _checked(name, own(odds))


def _checked(name: str, weight: object) -> float:
    """Returns a plugin's weight as a number. Raises PluginError if it is not a finite number, or below 0."""
    if (number := plugins.finite("matchmaking", name, weight)) < 0:
        raise PluginError(f"the matchmaking '{name}' gave {weight!r}: a weight is 0 or more")
    return number


def _rotation(drawers: Sequence[str], pool: Sequence[str], number: int) -> list[tuple[str, str]]:
    """Returns the pairs (drawer, opponent) of a round of round robin."""
    return [(name, pool[(i + number) % len(pool)]) for i, name in enumerate(drawers)]


def _round(
    drawers: list[str], pool: list[str], weights: Callable[[str, Sequence[str]], list[float]], rng: random.Random
) -> list[tuple[str, str]]:
    """Draws the pairs (drawer, opponent) of a round, and shuffles `drawers`."""
    # The order is random, because those that draw late find fewer opponents left.
    rng.shuffle(drawers)
    # The games that each member of the pool is owed. While some members wait for their next owed game, only they are
    # candidates. Drawing by weight alone would let a hopeless member play almost never, and its rating stand still.
    owed = math.ceil(len(drawers) / (2 * len(pool)))
    waiting: list[str] = []
    pairs: list[tuple[str, str]] = []
    for drawer in drawers:
        if not waiting and owed:
            waiting = list(pool)
            owed -= 1
        candidates = waiting or pool
        index = _draw(weights(drawer, candidates), rng)
        pairs.append((drawer, candidates[index]))
        if waiting:
            waiting.pop(index)
    return pairs


def _draw(weights: list[float], rng: random.Random) -> int:
    # Weights of pairs that are far apart underflow to zero, and `choices` refuses a total of zero.
    if not sum(weights) > 0.0:
        weights = [1.0] * len(weights)
    return rng.choices(range(len(weights)), weights)[0]
