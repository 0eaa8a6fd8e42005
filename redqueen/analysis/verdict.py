"""One word about what a run is doing, by a rule that docs/reference/METRICS.md states, and the trends behind it.

It reads the lines of metrics.jsonl alone, so that a page can say it while the run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from redqueen.base.intervals import Interval, interval_text, mean, slope
from redqueen.run.recording.metrics import kinds_of, standardised
from redqueen.run.recording.metrics.complexity import mean_size
from redqueen.run.recording.metrics.metric import Line, contested_share
from redqueen.store.metrics import StepMetrics
from redqueen.tasks.kinds import find_or_plain

# Does a curve rise or fall over the run, does it swing around its trend more than noise would, and is there a cycle?
#
# The change has an interval that slow noise does not fool. Swings and cycles are two bootstrap tests of what a cubic
# trend, fitted by least squares, leaves over.
#
# - **Swings.** The statistic is the share of the leftover variance that survives a running mean. Noise that is
#   independent from step to step is mostly averaged away; what lasts for several steps is not. The null is a bootstrap
#   of the leftovers (Efron and Tibshirani 1993, *An Introduction to the Bootstrap*, chapters 9 and 16): drawn with
#   replacement, they have the same spread and no order.
# - **Cycle.** A learner changes slowly, so its curve also drifts, and drift swings without a rhythm. The second null is
#   a drift: an autoregression of order 1 with innovations drawn from the leftovers (the sieve bootstrap, Bühlmann 1997,
#   Bernoulli 3). The statistic is the highest peak of the periodogram over the spectrum of that autoregression, as in
#   Torrence and Compo 1998, Bulletin of the American Meteorological Society 79, section 4.

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


Word = Literal["collapse", "arms race", "disengagement", "solved", "learning", "forgetting", "undecided"]

SOLVED = 0.9
"""A solve rate of at least this is close to 1, and at most 1 minus this close to 0."""
CONTESTED = 0.1
"""Below this share of contested tasks hardly any task tells attempts apart."""
CLIMB = 0.1
"""A change of the solve rate by less than this is too small to speak of."""
GROWTH = 0.1
"""A relative change of the programs' size by less than this is too small to speak of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """The word, and the numbers that led to it. A number is None where the run is too short or does not have it."""

    word: Word
    reason: str
    """One plain sentence."""
    solve_rate: Trend | None
    """The mean of the kinds."""
    contested: Trend | None
    """The share of contested tasks."""
    size: Trend | None
    """The size of the programs that teachers write."""
    size_of: str
    """What the size is counted in."""
    oscillation: Oscillation | None
    """Of the solve rate."""
    alone: bool
    """Whether students play alone, on fixed tasks: then there is no curriculum to judge, only the solve rate."""
    too_short: bool
    """Whether the run has too few steps for any word."""

    @property
    def title(self) -> str:
        """What the word is about."""
        return "Fixed tasks" if self.alone else "Curriculum"


def verdict(lines: Sequence[StepMetrics]) -> RunVerdict:
    """Returns what the run is doing, as far as these lines show it."""
    kinds = kinds_of(lines)
    solve_rates = [standardised(line.get("solve_rate_by_kind") or {}, kinds) for line in lines]
    sizes, size_of = _sizes(lines)
    solve_rate = trend(solve_rates)
    contested = trend([contested_share(line) for line in lines])
    size = trend(sizes)
    alone = _alone(lines)
    found: tuple[Word, str] | None = None
    if solve_rate is not None and contested is not None and alone:
        found = _of_fixed_tasks(solve_rate, contested)
    elif solve_rate is not None and contested is not None and size is not None:
        found = _decide(solve_rate, contested, size)
    word, reason = found or ("undecided", _too_short(len(lines)))
    return RunVerdict(
        word=word,
        reason=reason,
        solve_rate=solve_rate,
        contested=contested,
        size=size,
        size_of=size_of,
        oscillation=oscillation(solve_rates),
        alone=alone,
        too_short=found is None,
    )


def _alone(lines: Sequence[Line]) -> bool:
    """Returns whether students play without a teacher, as far as the newest line knows its members."""
    members: Mapping[str, Mapping[str, Any]] = (lines[-1].get("members") or {}) if lines else {}
    return bool(members) and all(member.get("role") == "student" for member in members.values())


def _too_short(steps: int) -> str:
    if steps < SHORTEST:
        return f"Too short: {steps} steps are played, and the rule needs {SHORTEST}."
    return f"Fewer than {SHORTEST} of the {steps} steps have a solve rate and valid tasks."


def _of_fixed_tasks(solve_rate: Trend, contested: Trend) -> tuple[Word, str]:
    """Returns the word and its reason of students alone."""
    solved = f"the solve rate went from {solve_rate.first:.2f} to {solve_rate.last:.2f}, in sample"
    if solve_rate.last >= SOLVED:
        return "solved", f"Nearly every task is solved ({solve_rate.last:.2f}): only harder ones teach more."
    if contested.last < CONTESTED:
        return "disengagement", _uncontested(contested)
    if solve_rate.rises and solve_rate.change.mean >= CLIMB:
        return "learning", f"The tasks stay the same, and {solved}."
    if solve_rate.falls and solve_rate.change.mean <= -CLIMB:
        return "forgetting", f"The tasks stay the same, and {solved}."
    return "undecided", f"The solve rate changed too little to tell: {solved}."


def _uncontested(contested: Trend) -> str:
    return (
        f"Only {contested.last:.0%} of the tasks are contested: the others are solved always or never, "
        "so no member learns from them."
    )


def _decide(solve_rate: Trend, contested: Trend, size: Trend) -> tuple[Word, str]:
    """Returns the word and its reason. The order of the questions is a part of the rule."""
    climbs = solve_rate.rises and solve_rate.change.mean >= CLIMB
    lower = solve_rate.change.mean <= -CLIMB
    grows = size.rises and size.change.mean >= GROWTH * size.first
    shrinks = size.falls and size.change.mean <= -GROWTH * size.first
    solved = f"the solve rate went from {solve_rate.first:.2f} to {solve_rate.last:.2f}"
    # A solve rate close to 1 pays teachers nothing, but as long as their programs grow they may still get away.
    if shrinks and climbs:
        return "collapse", f"The programs became smaller and {solved}."
    if solve_rate.last >= SOLVED and not grows:
        return "collapse", f"Nearly every task is solved ({solve_rate.last:.2f}) and the programs do not grow."
    if contested.last < CONTESTED:
        return "disengagement", _uncontested(contested)
    if grows and not lower and 1 - SOLVED <= solve_rate.last <= SOLVED:
        return "arms race", f"The programs grew and the students kept up: {solved}."
    # A fall that may be chance is no proof that they kept up.
    if grows and lower:
        behind = "the students fell behind" if solve_rate.falls else "whether the students kept up is not clear"
        return "undecided", f"The programs grew and {behind}: {solved}."
    return "undecided", f"The programs neither grew nor became smaller enough to tell: {solved}."


def _sizes(lines: Sequence[Line]) -> tuple[Sequence[float | None], str]:
    """Returns the mean size of the programs that teachers write, step by step, and what it is counted in."""
    # A third of a program can be code that never runs. A run that grows by that alone is in no arms race.
    reached = mean_size(lines, "reached", "nodes")
    if any(size is not None for size in reached):
        return reached, "nodes that can run"
    # Runs of former versions have lines only. A program that was given to the teacher says nothing about it.
    sizes: list[float | None] = []
    for line in lines:
        means: Mapping[str, float | None] = line.get("lines_by_kind") or {}
        sizes.append(mean(size for kind, size in means.items() if not find_or_plain(kind).starts_from_program))
    return sizes, "lines as written"


HEAD = ("quantity", "first quarter", "last quarter", f"change over the run [{LEVEL:.0%} interval]")


def trend_rows(verdict: RunVerdict) -> list[list[str]]:
    """Returns the numbers that a verdict rests on, below `HEAD`; none where the run is too short."""
    named = (
        ("solve rate, mean of the kinds", verdict.solve_rate),
        ("contested tasks, share", verdict.contested),
        (f"size of the programs, {verdict.size_of}", verdict.size),
    )
    return [
        [name, f"{trend.first:.2f}", f"{trend.last:.2f}", interval_text(trend.change)]
        for name, trend in named
        if trend is not None
    ]


def oscillation_words(found: Oscillation | None) -> str:
    """Returns what the tests for swings and for a cycle found, in words."""
    if found is None:
        return f"Whether the solve rate oscillates needs {LEAST_STEPS} steps with a solve rate that varies."
    spread = f"it varies around its trend with a standard deviation of {found.deviation:.3f}"
    if not found.swings:
        return f"The solve rate does not swing more than independent noise (p = {found.p:.3f}); {spread}."
    more = f"The solve rate swings more than independent noise (p = {found.p:.3f}); {spread}."
    if found.cycles:
        return f"{more} A wave of about {found.period:.0f} steps stands out of a drift (p = {found.p_cycle:.3f})."
    return f"{more} No wave stands out of a drift (p = {found.p_cycle:.3f}), so a cycle is not shown."
