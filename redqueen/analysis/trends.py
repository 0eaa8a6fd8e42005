"""Does a curve rise or fall over the run, does it swing around its trend more than noise would, and is there a cycle?

The change has an interval that slow noise does not fool. Swings and cycles are two bootstrap tests of what a cubic
trend, fitted by least squares, leaves over.

- **Swings.** The statistic is the share of the leftover variance that survives a running mean. Noise that is
  independent from step to step is mostly averaged away; what lasts for several steps is not. The null is a bootstrap of
  the leftovers (Efron and Tibshirani 1993, *An Introduction to the Bootstrap*, chapters 9 and 16): drawn with
  replacement, they have the same spread and no order.
- **Cycle.** A learner changes slowly, so its curve also drifts, and drift swings without a rhythm. The second null is a
  drift: an autoregression of order 1 with innovations drawn from the leftovers (the sieve bootstrap, Bühlmann 1997,
  Bernoulli 3). The statistic is the highest peak of the periodogram over the spectrum of that autoregression, as in
  Torrence and Compo 1998, Bulletin of the American Meteorological Society 79, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from redqueen.base.intervals import Interval, slope

BLOCKS = 8
"""Into so many blocks of consecutive steps a run is cut."""
SHORTEST = 3 * BLOCKS
"""Steps that are needed: three in each block."""
LEVEL = 0.98
"""The level of the interval. Neighbouring blocks are still a little alike, so it is above the usual 0.95."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How a curve changed from the start to the end of a run."""

    first: float
    """Mean over the first quarter of the steps."""
    last: float
    """Mean over the last quarter of the steps."""
    change: Interval
    """The slope of a straight line through the block means, times the length of the run."""

    @property
    def rises(self) -> bool:
        """Whether the interval of the change is above 0; a line without any noise has no interval."""
        return self.change.above or (self.change.low is None and self.change.mean > 0)

    @property
    def falls(self) -> bool:
        """Whether the interval of the change is below 0."""
        return self.change.below or (self.change.low is None and self.change.mean < 0)


def trend(values: Sequence[float | None]) -> Trend | None:
    """Returns the trend of the values of consecutive steps, None with fewer than `SHORTEST`.

    Steps resemble their neighbours, so a straight line through all of them would be far too sure of itself. The means
    of long blocks are nearly independent (the method of batch means: Law and Kelton, *Simulation Modeling and
    Analysis*, chapter 9), and the line is fitted to these.
    """
    measured = [value for value in values if value is not None]
    if len(measured) < SHORTEST:
        return None
    middles: list[float] = []
    means: list[float] = []
    for block in range(BLOCKS):
        start = block * len(measured) // BLOCKS
        end = (block + 1) * len(measured) // BLOCKS
        # From the first step to the last is a length of 1.
        middles.append((start + end - 1) / 2 / (len(measured) - 1))
        means.append(fmean(measured[start:end]))
    change = slope(middles, means, LEVEL)
    assert change is not None, "eight blocks are enough for a line"
    quarter = len(measured) // 4
    return Trend(first=fmean(measured[:quarter]), last=fmean(measured[-quarter:]), change=change)


Array = NDArray[np.float64]

LEAST_STEPS = 24
"""Steps that are needed. In a shorter run a cubic follows a swing as well."""
WINDOW = 5
"""Steps of the running mean: swings of less than about 8 steps are averaged away with the noise."""
SIGNIFICANCE = 0.05
_DEGREE = 3
_DRAWS = 499
# Slower waves than this many in a run are left to the trend.
_FEWEST_WAVES = 3
# An estimate near 1 would be a random walk, whose spectrum has no level.
_MOST_PERSISTENT = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Oscillation:
    """What the two tests found."""

    steps: int
    """Steps that had a value."""
    deviation: float
    """Standard deviation around the trend."""
    slow: float
    """The share of the variance around the trend that lasts for several steps."""
    p: float
    """The share of curves of independent noise in which `slow` was as large."""
    period: float
    """Steps of the wave that stands out most."""
    p_cycle: float
    """The share of drifting curves without a cycle in which a wave stood out as much."""

    @property
    def swings(self) -> bool:
        """Whether the curve swings more than independent noise."""
        return self.p < SIGNIFICANCE

    @property
    def cycles(self) -> bool:
        """Whether it swings, and a drift does not explain it."""
        return self.swings and self.p_cycle < SIGNIFICANCE


def oscillation(values: Sequence[float | None], draws: int = _DRAWS) -> Oscillation | None:
    """Tests the values of consecutive steps; steps without one are left out.

    Returns None with fewer than `LEAST_STEPS` values, or if they do not vary around their trend.
    """
    known_N = np.array([value for value in values if value is not None], dtype=np.float64)
    if len(known_N) < LEAST_STEPS:
        return None
    leftover_N = _detrend(known_N)
    deviation = float(np.sqrt(np.sum(leftover_N**2) / (len(known_N) - _DEGREE - 1)))
    # Rounding leaves a curve that is a cubic a tiny spread.
    if deviation <= 1e-9 * max(1.0, float(np.abs(known_N).max())):
        return None
    # The generator is the same each time: a report that is made twice gives the same numbers.
    rng = np.random.default_rng(0)
    noise_B = _slow_share(_detrend(rng.choice(leftover_N, size=(draws, len(known_N)))))
    slow = float(_slow_share(leftover_N))
    peak, wave = _highest_peak(leftover_N)
    drift_B, _ = _highest_peak(_detrend(_drifts(leftover_N, draws, rng)))
    return Oscillation(
        steps=len(known_N),
        deviation=deviation,
        slow=slow,
        p=_p(noise_B, slow),
        period=len(known_N) / float(wave),
        p_cycle=_p(drift_B, float(peak)),
    )


def _p(null_B: Array, found: float) -> float:
    """Returns the share of the draws that are as large as what was found."""
    # What was found counts as one of the draws, so that p is never 0 (Davison and Hinkley 1997, section 4.2).
    return float((1 + np.sum(null_B >= found)) / (len(null_B) + 1))


def _detrend(values_BN: Array) -> Array:
    """Returns what a cubic leaves of each row."""
    # The trend of the null need not be added before it is fitted: a least-squares fit takes out exactly what was added.
    steps = np.linspace(-1, 1, values_BN.shape[-1])
    basis_ND = np.linalg.qr(np.vander(steps, _DEGREE + 1))[0]
    return values_BN - values_BN @ basis_ND @ basis_ND.T


def _slow_share(leftover_BN: Array) -> Array:
    """Returns the share of each row's variance that survives the running mean."""
    smooth_BM = np.lib.stride_tricks.sliding_window_view(leftover_BN, WINDOW, axis=-1).mean(axis=-1)
    return np.mean(smooth_BM**2, axis=-1) / np.mean(leftover_BN**2, axis=-1)


def _persistence(leftover_BN: Array) -> Array:
    """Returns the correlation of each row with itself one step later."""
    products = np.sum(leftover_BN[..., 1:] * leftover_BN[..., :-1], axis=-1)
    return np.clip(products / np.sum(leftover_BN**2, axis=-1), -_MOST_PERSISTENT, _MOST_PERSISTENT)


def _drifts(leftover_N: Array, draws: int, rng: np.random.Generator) -> Array:
    """Returns curves that drift as the leftovers do, one a row."""
    persistence = _persistence(leftover_N)
    innovations_N = leftover_N[1:] - persistence * leftover_N[:-1]
    # A row needs some steps until its start no longer matters.
    before = 50
    drawn_BN = rng.integers(len(innovations_N), size=(draws, before + len(leftover_N)))
    drift_BN = (innovations_N - innovations_N.mean())[drawn_BN]
    for step in range(1, drift_BN.shape[1]):
        drift_BN[:, step] += persistence * drift_BN[:, step - 1]
    return drift_BN[:, before:]


def _highest_peak(leftover_BN: Array) -> tuple[Array, Array]:
    """Returns by how much the strongest wave of each row exceeds a drift, and how many of it the row has."""
    length = leftover_BN.shape[-1]
    waves_W = np.arange(_FEWEST_WAVES, length // 2 + 1, dtype=np.float64)
    power_BW = np.abs(np.fft.rfft(leftover_BN, axis=-1)[..., _FEWEST_WAVES:]) ** 2
    persistence_B1 = _persistence(leftover_BN)[..., None]
    # The shape of an autoregression's spectrum; its level is fitted to the row.
    drift_BW = 1 / (1 + persistence_B1**2 - 2 * persistence_B1 * np.cos(2 * np.pi * waves_W / length))
    over_BW = power_BW / drift_BW
    over_BW = over_BW / over_BW.mean(axis=-1, keepdims=True)
    return over_BW.max(axis=-1), waves_W[over_BW.argmax(axis=-1)]
