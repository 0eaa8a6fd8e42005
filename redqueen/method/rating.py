"""Ratings: two-player TrueSkill with draws.

TrueSkill is Herbrich, Minka and Graepel, "TrueSkill: A Bayesian Skill Rating System" (NIPS 2006). With two
players message passing ends after one sweep, so the update is the closed form of that paper: the truncated
Gaussian's mean shift v and variance shrinkage w. `redqueen.method.games` has the rule of a game.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Literal

GameResult = Literal["student", "teacher", "draw"]
"""Who won a match."""

CHILD_SIGMA = 25.0 / 6.0
"""The sigma of a newborn, in rating points: half of what the first population starts with, and equal to beta."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The league's belief about one member's skill: a normal distribution, in rating points.

    Raises ValueError if a value is not finite, or sigma is not positive.

    >>> Rating().lcb()
    0.0
    """

    mu: float = 25.0
    sigma: float = 25.0 / 3.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mu) and math.isfinite(self.sigma) and self.sigma > 0.0):
            raise ValueError(f"a rating needs a finite mu and a finite sigma above zero, not {self}")

    def lcb(self, k: float = 3.0) -> float:
        """Returns the lower confidence bound mu - k sigma, in rating points."""
        return self.mu - k * self.sigma


def inherited(parents: Sequence[Rating]) -> Rating:
    """Returns the rating that a child of members with these ratings starts with: their mean mu and a wide sigma.

    A child resembles its parents, so their mean is the best guess of its skill. A fresh mu of 25 would rank it by its
    age: where mu - 3 sigma was the fitness, 9 of 10 newborns were replaced at their first chance.

    Raises ValueError without a parent.
    """
    if not parents:
        raise ValueError("a child needs a parent")
    return Rating(fmean(parent.mu for parent in parents), CHILD_SIGMA)


@dataclass(frozen=True, slots=True)
class TrueSkill:
    """The rating system's parameters (defaults: Herbrich et al. 2006, and the `trueskill` package's).

    Raises ValueError if beta is not positive, tau is negative, or draw_probability is outside [0, 1).

    >>> teacher, student = TrueSkill().rate(Rating(), Rating(), "student")
    >>> round(student.mu, 2), round(teacher.mu, 2)
    (29.4, 20.6)
    """

    beta: float = 25.0 / 6.0
    """Standard deviation of one game's performance around skill, in rating points."""
    tau: float = 25.0 / 300.0
    """Skill drift added to sigma before each game, in rating points."""
    draw_probability: float = 0.1
    """The probability of a draw between equals; it sets the draw margin."""

    def __post_init__(self) -> None:
        if not (0.0 < self.beta < math.inf and 0.0 <= self.tau < math.inf):
            raise ValueError(f"beta must be above zero and tau at least zero, both finite: {self}")
        if not 0.0 <= self.draw_probability < 1.0:
            raise ValueError(f"draw_probability must be in [0, 1), not {self.draw_probability}")

    def rate(self, teacher: Rating, student: Rating, result: GameResult) -> tuple[Rating, Rating]:
        """Returns the ratings (teacher, student) after one game with this `result`.

        Both are finite and have a positive sigma, however unlikely the result was. Raises ValueError if `result` is not
        one of the three.
        """
        if result == "teacher":
            return self._update(teacher, student, drawn=False)
        if result == "student":
            new_student, new_teacher = self._update(student, teacher, drawn=False)
            return new_teacher, new_student
        if result == "draw":
            return self._update(teacher, student, drawn=True)
        raise ValueError(f"unknown result {result!r}")

    def win_probabilities(self, pairs: Iterable[tuple[Rating, Rating]]) -> Iterator[tuple[float, float]]:
        """Yields each pair's predicted probabilities of winning; a small one keeps its precision.

        A draw counts as half a win for each: it is the probability that a performance is the higher one and ignores the
        draw margin. Drift (tau) is not added, because the prediction is about the present skill.
        """
        noise_var = 2.0 * self.beta**2
        root2 = math.sqrt(2.0)
        for a, b in pairs:
            lead = (a.mu - b.mu) / math.sqrt(noise_var + a.sigma**2 + b.sigma**2) / root2
            yield 0.5 * math.erfc(-lead), 0.5 * math.erfc(lead)

    def _update(self, winner: Rating, loser: Rating, *, drawn: bool) -> tuple[Rating, Rating]:
        winner_var = winner.sigma**2 + self.tau**2
        loser_var = loser.sigma**2 + self.tau**2
        noise_var = 2.0 * self.beta**2
        total_var = noise_var + winner_var + loser_var
        c = math.sqrt(total_var)
        # Performances within this margin count as a draw; between equals that has `draw_probability`.
        margin = NormalDist().inv_cdf((self.draw_probability + 1.0) / 2.0) * math.sqrt(2.0) * self.beta
        gap = (winner.mu - loser.mu) / c
        v, w = _drawn(gap, margin / c) if drawn else _won(gap - margin / c)

        def moved(player: Rating, var: float, other_var: float, sign: float) -> Rating:
            # The paper's var * (1 - var / total_var * w), rearranged. With w near 1 and a large variance the difference
            # could cancel to sigma = 0, which is no rating.
            new_var = var * (noise_var + other_var + var * (1.0 - w)) / total_var
            return Rating(player.mu + sign * var / c * v, math.sqrt(new_var))

        return moved(winner, winner_var, loser_var, 1.0), moved(loser, loser_var, winner_var, -1.0)


# Beyond _TAIL a normal density or tail probability may underflow to 0, and v and w would be 0 / 0. There the ratios are
# computed directly, by a continued fraction. Beyond _FAR a draw is its own limit.
_TAIL = 5.0
_FAR = 1e5


def _pdf(x: float) -> float:
    return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def _cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _excess(x: float) -> float:
    """Returns pdf(x) / cdf(-x) - x for x >= 5, by Laplace's continued fraction 1 / (x + 2 / (x + 3 / (x + ...)))."""
    tail = x
    for term in range(60, 1, -1):
        tail = x + term / tail
    return 1.0 / tail


def _mills(x: float) -> float:
    """Returns Mills' ratio cdf(-x) / pdf(x)."""
    return 1.0 / (x + _excess(x)) if x > _TAIL else _cdf(-x) / _pdf(x)


def _won(x: float) -> tuple[float, float]:
    """Returns v and w of a win; `x` is the winner's standardised lead less the draw margin."""
    if x < -_TAIL:
        excess = _excess(-x)
        v = excess - x
    else:
        v = _pdf(x) / _cdf(x)
        excess = v + x
    return v, min(1.0, v * excess)


def _drawn(gap: float, margin: float) -> tuple[float, float]:
    """Returns v and w of a draw; both arguments are standardised. A margin of zero is the limit of a small one."""
    t = abs(gap)
    near = t - margin
    far = t + margin
    if margin < 1e-6 or near > _FAR:
        v = -max(near, 0.0)
        w = 1.0
    else:
        # Everything is divided by pdf(near), which alone would underflow at a gap of about 40.
        ratio = math.exp(-2.0 * margin * t)
        mass = _mills(near) - ratio * _mills(far)
        v = math.expm1(-2.0 * margin * t) / mass
        w = min(1.0, max(0.0, v * v + (far * ratio - near) / mass))
    return math.copysign(v, -gap), w
