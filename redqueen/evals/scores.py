"""What samples add up to: a score of each entrant in each column of the table, with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from redqueen.base import streams
from redqueen.base.intervals import LEVEL, Interval, share
from redqueen.evals.benchmark import ProblemSet
from redqueen.evals.held_out import program_of
from redqueen.evals.samples import SampleRow

# Bootstrap intervals of scores (Efron 1979), and pass@k without bias (Chen et al. 2021, equation 1).

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


def resampled_means(rates_EP: Array, programs: Sequence[str], name: str) -> Array:
    """Returns the mean rate of each entrant on `RESAMPLES` draws of programs with replacement, [RESAMPLES, E].

    `rates_EP` is [entrants, problems], NaN where nothing was judged, and `programs` names the program of each problem:
    those of one program are drawn together. All entrants get the same draws, so differences between them are paired.
    A draw without a judged problem gives NaN.
    """
    numbers: dict[str, int] = {}
    number_P = np.array([numbers.setdefault(program, len(numbers)) for program in programs], dtype=np.intp)
    count = len(numbers)
    generator = np.random.Generator(np.random.Philox(key=streams.key("bootstrap", name)))
    counts_BP = generator.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)[:, number_P].astype(np.float64)
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


AVERAGES = ("code", "maths", "all")
"""Columns that are means of columns: of the paper's benchmarks of that group, and of all of the paper's benchmarks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreEntry:
    """One entrant: a row of the results."""

    target: str
    member: str
    """"" where the target is one adapter."""
    single_agent: bool = False
    """Whether its run trained a single agent."""
    step: int | None = None
    """The step of its run's checkpoint; None where it is of no run."""

    @property
    def label(self) -> str:
        return f"{self.target} {self.member}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreCell:
    """One entrant on one benchmark."""

    rate: Interval | None
    """pass@1, which is avg@k with several samples: the mean over problems of the share of right samples, with its
    bootstrap interval over problems (Wilson's where all problems came out alike). None if nothing was judged."""
    pass_at: Mapping[int, float]
    """pass@k by k, for powers of two up to the number of samples."""
    problems: int
    """Problems with a judged sample."""
    samples: int
    cut_off: float
    """The share of samples that the token limit ended."""
    tokens: int
    """Tokens sampled."""
    statuses: Mapping[str, int]
    parts: Mapping[str, tuple[int, int]]
    """Right and judged samples of each part of the benchmark; empty if it has no parts."""


class Results:
    """The scores of all entrants on all benchmarks."""

    def __init__(self, entries: Sequence[ScoreEntry], benchmarks: Sequence[ProblemSet]) -> None:
        self.entries = list(entries)
        self.benchmarks = list(benchmarks)
        self.cells: dict[str, list[ScoreCell]] = {}
        """The cells of a benchmark, in the order of the entries."""
        self._rates: dict[str, Array] = {}
        self._programs: dict[str, list[str]] = {}
        self._draws: dict[str, Array] = {}
        self._means: dict[str, Array] = {}

    def add(self, loaded: ProblemSet, rows: Sequence[Sequence[SampleRow]]) -> None:
        """Adds a benchmark; `rows` are each entry's samples, in the order of the entries."""
        name = loaded.benchmark.name
        part_of = {problem.id: str(problem.data.get("part", "")) for problem in loaded.problems}
        rates = np.array([_rates(loaded, samples) for samples in rows])
        self._rates[name] = rates
        self._programs[name] = [program_of(problem.id) for problem in loaded.problems]
        self._draws[name] = resampled_means(rates, self._programs[name], name)
        cells: list[ScoreCell] = []
        for number, samples in enumerate(rows):
            cells.append(_cell(samples, rates[number], self._draws[name][:, number], part_of))
        self.cells[name] = cells
        self._means[name] = np.array([cell.rate.mean if cell.rate else np.nan for cell in cells])

    def columns(self) -> list[str]:
        """Returns the benchmarks, and those averages that are over more than one of them."""
        return [*self.cells, *(name for name in AVERAGES if len(self.averaged(name)) > 1)]

    def averaged(self, column: str) -> list[str]:
        """Returns the benchmarks that a column is the mean of."""
        if column in self.cells:
            return [column]
        groups = ("code", "maths") if column == "all" else (column,)
        present = [loaded.benchmark for loaded in self.benchmarks if loaded.benchmark.name in self.cells]
        return [benchmark.name for benchmark in present if benchmark.group in groups]

    def mean(self, column: str, entry: int) -> float:
        """Returns an entrant's score in a column; NaN if it has none."""
        return float(np.mean([self._means[name][entry] for name in self.averaged(column)]))

    def draws(self, column: str) -> Array:
        """Returns all entrants' scores in a column on resampled problems, [resamples, entrants]."""
        drawn = [self._draws[name] for name in self.averaged(column)]
        return sum(drawn[1:], start=drawn[0]) / len(drawn)

    def rate(self, column: str, entry: int) -> Interval | None:
        """Returns an entrant's score in a column with its interval over problems."""
        if column in self.cells:
            return self.cells[column][entry].rate
        mean = self.mean(column, entry)
        problems = sum(self.cells[name][entry].problems for name in self.averaged(column))
        return None if np.isnan(mean) else percentiles(mean, self.draws(column)[:, entry], problems)

    def overall(self) -> str:
        """Returns the column that members are ranked by: all of the paper's benchmarks, or else the first column."""
        present = self.averaged("all")
        if len(present) > 1:
            return "all"
        return present[0] if present else self.columns()[0]

    def groups(self) -> dict[str, list[int]]:
        """Returns the numbers of the entries of each target."""
        by_target: dict[str, list[int]] = {}
        for number, entry in enumerate(self.entries):
            by_target.setdefault(entry.target, []).append(number)
        return by_target

    def ranked(self, members: Sequence[int]) -> list[int]:
        """Returns entries from best to worst by the column `overall`; those without a score come last."""
        column = self.overall()
        return sorted(members, key=lambda entry: -np.nan_to_num(self.mean(column, entry), nan=-1.0))

    def population(self, column: str, members: Sequence[int]) -> Interval | None:
        """Returns the mean of several entries with its interval over members."""
        means = [self.mean(column, entry) for entry in members]
        measured = [mean for mean in means if not np.isnan(mean)]
        return over_members(measured, column) if measured else None

    def mean_of(self, column: str, members: Sequence[int]) -> Interval | None:
        """Returns the mean of several entries with its interval over problems; None if one of them has no score."""
        return self._shared(column, members, lambda scores: scores.mean(axis=-1))

    def mean_over(self, column: str, members: Sequence[int], others: Sequence[int]) -> Interval | None:
        """Returns how far the mean of several entries is above that of others, with its interval over problems.

        The difference is paired: only problems count that all of them have answered.
        """
        count = len(members)
        return self._shared(
            column,
            [*members, *others],
            lambda scores: scores[..., :count].mean(axis=-1) - scores[..., count:].mean(axis=-1),
        )

    def weakest_against(self, members: Sequence[int], baseline: int) -> Interval | None:
        """Returns how far the weakest of several entries is above another one, with its interval over problems.

        In each draw of the problems the weakest is chosen anew, so that the choice is part of the interval.
        Only problems count that all of them have answered.
        """
        return self._shared(
            self.overall(), [*members, baseline], lambda scores: scores[..., :-1].min(axis=-1) - scores[..., -1]
        )

    def _shared(self, column: str, entries: Sequence[int], of: Callable[[Array], Array]) -> Interval | None:
        """Returns a value `of` the scores of entries, [..., entries], on the problems that all of them have answered.

        Its interval is over problems. None if one of the entries has no score. A problem that the machine lost for one
        of them would otherwise move its score alone.
        """
        chosen = list(entries)
        means: list[Array] = []
        draws: list[Array] = []
        problems = 0
        for name in self.averaged(column):
            rates = self._rates[name][chosen]
            lost = np.isnan(rates).any(axis=0)
            count = int((~lost).sum())
            problems += count
            means.append(rates[:, ~lost].mean(axis=1) if count else np.full(len(chosen), np.nan))
            same = self._draws[name][:, chosen]
            judged = np.where(lost, np.nan, rates)
            draws.append(resampled_means(judged, self._programs[name], name) if lost.any() else same)
        value = float(of(np.mean(means, axis=0)))
        return None if np.isnan(value) else percentiles(value, of(np.mean(draws, axis=0)), problems)


def _rates(loaded: ProblemSet, samples: Sequence[SampleRow]) -> list[float]:
    """Returns the share of right samples of each problem; NaN where the machine lost them all."""
    by_problem: dict[str, list[bool]] = {problem.id: [] for problem in loaded.problems}
    for row in samples:
        if row.status != "infra_error":
            by_problem[row.problem].append(row.status == "correct")
    return [float(np.mean(right)) if right else float("nan") for right in by_problem.values()]


def _cell(samples: Sequence[SampleRow], rates: Array, draws: Array, part_of: Mapping[str, str]) -> ScoreCell:
    measured = rates[~np.isnan(rates)]
    judged = [row for row in samples if row.status != "infra_error"]
    rate = percentiles(float(measured.mean()), draws, len(measured)) if measured.size else None
    if rate is not None and rate.low is None and rate.mean in (0.0, 1.0):
        rate = share(int(rate.mean) * len(measured), len(measured))
    return ScoreCell(
        rate=rate,
        pass_at=_passes(judged),
        problems=len(measured),
        samples=len(judged),
        cut_off=float(np.mean([row.cut_off for row in judged])) if judged else 0.0,
        tokens=sum(row.tokens for row in samples),
        statuses=dict(sorted(Counter(row.status for row in samples).items())),
        parts=_parts(judged, part_of),
    )


def _passes(judged: Sequence[SampleRow]) -> dict[int, float]:
    """Returns pass@1, pass@2, pass@4, ... as far as every problem has so many judged samples."""
    counts = Counter(row.problem for row in judged)
    right = Counter(row.problem for row in judged if row.status == "correct")
    passes: dict[int, float] = {}
    k = 1
    while counts and k <= min(counts.values()):
        passes[k] = float(np.mean([pass_at_k(n, right[problem], k) for problem, n in counts.items()]))
        k *= 2
    return passes


def _parts(judged: Sequence[SampleRow], part_of: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    counts = Counter(part_of[row.problem] for row in judged)
    right = Counter(part_of[row.problem] for row in judged if row.status == "correct")
    return {part: (right[part], count) for part, count in counts.items() if part}


# The learning curve of a run: an evaluation of all the checkpoints that it has kept (`redqueen eval --step all`).


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What the members of one checkpoint solve, on average."""

    step: int
    members: tuple[str, ...]
    score: Interval
    """With its interval over problems."""
    gain: Interval | None
    """The score less that of the run's first checkpoint, paired by problem; None at the first one."""
    pass_at: Mapping[int, float]
    """pass@k by k, for powers of two up to the number of samples; empty for an average of benchmarks."""


def curves(results: Results, column: str) -> dict[str, list[Point]]:
    """Returns the curve of each run in one column of the results, by step; of what is no run's checkpoint, none."""
    checkpoints: dict[str, dict[int, list[int]]] = {}
    for number, entry in enumerate(results.entries):
        if entry.step is not None:
            run = entry.target.removesuffix(f"@{entry.step}")
            checkpoints.setdefault(run, {}).setdefault(entry.step, []).append(number)
    return {run: _curve(results, column, dict(sorted(steps.items()))) for run, steps in checkpoints.items()}


def _curve(results: Results, column: str, checkpoints: Mapping[int, list[int]]) -> list[Point]:
    points: list[Point] = []
    first = next(iter(checkpoints.values()))
    for step, entries in checkpoints.items():
        score = results.mean_of(column, entries)
        if score is None:
            continue
        points.append(
            Point(
                step=step,
                members=tuple(results.entries[entry].member for entry in entries),
                score=score,
                gain=None if entries is first else results.mean_over(column, entries, first),
                pass_at=_pass_at(results, column, entries),
            )
        )
    return points


def _pass_at(results: Results, column: str, entries: list[int]) -> dict[int, float]:
    """Returns the mean over members of pass@k, for each k that all of them have."""
    if column not in results.cells:
        return {}
    passes = [results.cells[column][entry].pass_at for entry in entries]
    return {k: fmean(pass_at[k] for pass_at in passes) for k in passes[0] if all(k in pass_at for pass_at in passes)}
