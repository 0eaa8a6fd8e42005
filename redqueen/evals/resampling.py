"""Bootstrap intervals of scores (Efron 1979), and pass@k without bias (Chen et al. 2021, equation 1)."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray

from redqueen.base import streams
from redqueen.base.intervals import LEVEL, Interval

RESAMPLES = 2000
Array = NDArray[np.float64]


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Returns the chance that at least one of `k` samples is right, from `samples` >= `k` of which `correct` are.

    >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2)
    (0.25, 0.5)
    """
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} needs at least {k} samples, not {samples}")
    return 1 - comb(samples - correct, k) / comb(samples, k)


def resampled_means(rates_EP: Array, name: str) -> Array:
    """Returns the mean rate of each entrant on `RESAMPLES` draws of the problems with replacement, [RESAMPLES, E].

    `rates_EP` is [entrants, problems], NaN where nothing was judged. All entrants get the same draws, so differences
    between them are paired. A draw without a judged problem gives NaN.
    """
    problems = rates_EP.shape[1]
    generator = np.random.Generator(np.random.Philox(key=streams.key("bootstrap", name)))
    counts_BP = generator.multinomial(problems, np.full(problems, 1 / problems), size=RESAMPLES).astype(np.float64)
    judged_EP = ~np.isnan(rates_EP)
    sums_BE = counts_BP @ np.where(judged_EP, rates_EP, 0.0).T
    with np.errstate(invalid="ignore"):
        return sums_BE / (counts_BP @ judged_EP.astype(np.float64).T)


def percentiles(mean: float, draws: Array, n: int) -> Interval:
    """Returns `mean` with the interval of its resampled values. Values without spread give no interval."""
    values = draws[~np.isnan(draws)]
    if not values.size or values.max() - values.min() < 1e-12:
        return Interval(mean, None, None, n)
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(mean, float(low), float(high), n)


def over_members(values: Sequence[float], name: str) -> Interval:
    """Returns the mean of members' scores, with the bootstrap interval over members. One member has no interval."""
    scores = np.array(values)
    generator = np.random.Generator(np.random.Philox(key=streams.key("bootstrap", "members", name)))
    drawn = generator.integers(len(scores), size=(RESAMPLES, len(scores)))
    return percentiles(float(scores.mean()), scores[drawn].mean(axis=1), len(scores))
