"""Confidence intervals from few observations: Student's t for means (whole degrees of freedom), Wilson for shares.

The quantile of t is computed here, so that no statistics package is needed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean, stdev, variance

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its confidence interval."""

    mean: float
    low: float | None
    """The lower end; None if the observations give no interval."""
    high: float | None
    """The upper end; None if the observations give no interval."""
    n: int
    """How many observations there were."""

    @property
    def above(self) -> bool:
        """Whether the whole interval is above zero."""
        return self.low is not None and self.low > 0

    @property
    def below(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high is not None and self.high < 0


def interval_text(found: Interval | None, form: str = "+.2f", scale: float = 1) -> str:
    """Returns a mean with its interval, if there is one: `+0.05 [-0.02, +0.11]`. `form` is that of each number."""
    if found is None:
        return "-"
    if found.low is None or found.high is None:
        return f"{scale * found.mean:{form}}"
    return f"{scale * found.mean:{form}} [{scale * found.low:{form}}, {scale * found.high:{form}}]"


def mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the values that are known, None without any."""
    measured = [value for value in values if value is not None]
    return fmean(measured) if measured else None


def interval(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Returns the mean of independent `values`, or None without any. One value, or equal ones, have no interval."""
    if not values:
        return None
    if len(values) == 1:
        return Interval(values[0], None, None, 1)
    return around(fmean(values), stdev(values) / math.sqrt(len(values)), len(values) - 1, len(values), level)


def clustered(values: Sequence[float], clusters: Sequence[str], level: float = LEVEL) -> Interval | None:
    """Returns the mean of `values` with the interval of values that are independent only between `clusters`.

    Each value has the name of its cluster. What lies within a cluster may agree (Liang and Zeger 1986), and clusters of
    one value each give `interval`. None without values; one cluster has no interval.
    """
    if not values:
        return None
    mean = fmean(values)
    sums: dict[str, float] = defaultdict(float)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value - mean
    if len(sums) == 1:
        return Interval(mean, None, None, len(values))
    square = len(sums) / (len(sums) - 1) * sum(total * total for total in sums.values())
    return around(mean, math.sqrt(square) / len(values), len(sums) - 1, len(values), level)


def paired(values: Mapping[int, float], others: Mapping[int, float]) -> Interval | None:
    """Returns the mean difference of values from others of the same seed, over the seeds that both have.

    What has one seed starts from the same weights and random numbers, so a part of the noise cancels.
    """
    return interval([value - others[seed] for seed, value in values.items() if seed in others])


def share(hits: int, n: int, level: float = LEVEL) -> Interval | None:
    """Returns hits / n with its interval (Wilson 1927), or None if `n` is 0.

    The interval stays in [0, 1], and it has a width where nothing or everything is a hit.
    """
    if not n:
        return None
    z = NormalDist().inv_cdf((1 + level) / 2)
    rate = hits / n
    middle = (rate + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return Interval(rate, max(0.0, middle - reach), min(1.0, middle + reach), n)


def difference(x: Sequence[float], y: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Returns mean(x) - mean(y) of two independent samples with unequal variances (Welch 1947).

    Returns None if a sample has fewer than 2 values. The degrees of freedom follow Satterthwaite's formula.
    """
    if min(len(x), len(y)) < 2:
        return None
    a = variance(x) / len(x)
    b = variance(y) / len(y)
    spread = a * a / (len(x) - 1) + b * b / (len(y) - 1)
    # Rounded down, so that the interval is a little wide rather than a little narrow.
    freedom = max(1, int((a + b) ** 2 / spread)) if spread else len(x) + len(y) - 2
    return around(fmean(x) - fmean(y), math.sqrt(a + b), freedom, len(x) + len(y), level)


def slope(x: Sequence[float], y: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Returns the least-squares slope of `y` on `x`; None with fewer than 3 points or all `x` equal."""
    if len(x) < 3 or max(x) == min(x):
        return None
    mean_x = fmean(x)
    mean_y = fmean(y)
    square = sum((a - mean_x) ** 2 for a in x)
    rise = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / square
    residual = sum((b - mean_y - rise * (a - mean_x)) ** 2 for a, b in zip(x, y, strict=True))
    return around(rise, math.sqrt(residual / (len(x) - 2) / square), len(x) - 2, len(x), level)


def around(mean: float, error: float, freedom: int, n: int, level: float = LEVEL) -> Interval:
    """Returns mean ± t · error, where `error` is the standard error of the mean with `freedom` degrees of freedom.

    Observations without spread give no interval.
    """
    # An interval of width 0 would claim certainty, and a few equal observations (3 tasks, all solved) do not show that
    # all tasks would be solved. Rounding leaves equal observations a tiny spread.
    if error <= 1e-12 * abs(mean):
        return Interval(mean, None, None, n)
    reach = t_quantile(level, freedom) * error
    return Interval(mean, mean - reach, mean + reach, n)


@cache
def t_quantile(level: float, freedom: int) -> float:
    """Returns the t with P(|T| < t) = `level`, for Student's T with `freedom` >= 1 degrees of freedom.

    The distribution function is a finite sum in θ = atan(t / √ν) (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4), and
    bisection finds θ. Raises ValueError if `level` is outside (0, 1) or `freedom` is below 1.
    """
    if not 0 < level < 1 or freedom < 1:
        raise ValueError(f"no quantile for level {level} and {freedom} degrees of freedom")
    low = 0.0
    high = math.pi / 2
    # Each round halves the bracket; after about 55 its ends are neighbouring floats.
    for _ in range(80):
        middle = (low + high) / 2
        if _within(middle, freedom) < level:
            low = middle
        else:
            high = middle
    return math.tan((low + high) / 2) * math.sqrt(freedom)


def t_probability(t: float, freedom: int) -> float:
    """Returns P(|T| < t) for Student's T with `freedom` >= 1 degrees of freedom, t >= 0."""
    return _within(math.atan(t / math.sqrt(freedom)), freedom)


def _within(theta: float, freedom: int) -> float:
    """Returns P(|T| < √ν tan θ)."""
    sine = math.sin(theta)
    cosine = math.cos(theta)
    odd = freedom % 2
    # 26.7.3 for odd ν (whose sum starts at cos θ) and 26.7.4 for even ν; each term follows from the one before.
    term = cosine if odd else 1.0
    total = 0.0
    for i in range(freedom // 2):
        total += term
        upper = 2 * i + 2 if odd else 2 * i + 1
        term *= cosine * cosine * upper / (upper + 1)
    return (theta + sine * total) * 2 / math.pi if odd else sine * total
