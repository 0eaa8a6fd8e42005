"""Means with confidence intervals from few observations: Student's t, in closed form for whole degrees of freedom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev, variance

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean of `n` observations and its confidence interval; the ends are None where there is none."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def above(self) -> bool:
        """Whether the whole interval is above zero."""
        return self.low is not None and self.low > 0

    @property
    def below(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high is not None and self.high < 0


def interval(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The mean of independent `values`; None if there are none. One value, or equal ones, have no interval."""
    if not values:
        return None
    if len(values) == 1:
        return Interval(values[0], None, None, 1)
    return around(fmean(values), stdev(values) / math.sqrt(len(values)), len(values) - 1, len(values), level)


def difference(x: Sequence[float], y: Sequence[float], level: float = LEVEL) -> Interval | None:
    """mean(x) - mean(y) of two independent samples of at least 2, variances unequal (Welch 1947); None if smaller.

    Degrees of freedom by Satterthwaite's formula, rounded down: the interval is a little wide rather than narrow.
    """
    if min(len(x), len(y)) < 2:
        return None
    a, b = variance(x) / len(x), variance(y) / len(y)
    spread = a * a / (len(x) - 1) + b * b / (len(y) - 1)
    freedom = max(1, int((a + b) ** 2 / spread)) if spread else len(x) + len(y) - 2
    return around(fmean(x) - fmean(y), math.sqrt(a + b), freedom, len(x) + len(y), level)


def slope(x: Sequence[float], y: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The least-squares slope of `y` on `x`; None with fewer than 3 points or all `x` equal."""
    if len(x) < 3 or max(x) == min(x):
        return None
    mean_x, mean_y = fmean(x), fmean(y)
    square = sum((a - mean_x) ** 2 for a in x)
    rise = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / square
    left = sum((b - mean_y - rise * (a - mean_x)) ** 2 for a, b in zip(x, y, strict=True))
    return around(rise, math.sqrt(left / (len(x) - 2) / square), len(x) - 2, len(x), level)


def around(mean: float, error: float, freedom: int, n: int, level: float = LEVEL) -> Interval:
    """mean ± t · error, `error` being the standard error of the mean with `freedom` degrees of freedom.

    Without any spread there is no interval: few equal observations (3 tasks, all solved) do not show that all are.
    """
    if error <= 1e-12 * abs(mean):
        return Interval(mean, None, None, n)
    reach = t_quantile(level, freedom) * error
    return Interval(mean, mean - reach, mean + reach, n)


@cache
def t_quantile(level: float, freedom: int) -> float:
    """The t with P(|T| < t) = `level`, for Student's T with `freedom` >= 1 degrees of freedom, to about 1e-12.

    The distribution function is a finite sum in θ = atan(t / √ν) (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4);
    θ is found by bisection. Raises ValueError outside 0 < level < 1 or freedom < 1.
    """
    if not 0 < level < 1 or freedom < 1:
        raise ValueError(f"no quantile for level {level} and {freedom} degrees of freedom")
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < level else (low, middle)
    return math.tan((low + high) / 2) * math.sqrt(freedom)


def _within(theta: float, freedom: int) -> float:
    """P(|T| < √ν tan θ)."""
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for i in range(freedom // 2):
        total += term
        term *= cosine * cosine * (2 * i + 2 if odd else 2 * i + 1) / (2 * i + 3 if odd else 2 * i + 2)
    return (theta + sine * total) * 2 / math.pi if odd else sine * total
