"""Runs side by side: what they cost, their verdicts, and the quantities of the paper's claim."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np

from redqueen.analysis.compare.arms import (
    Arm,
    ArmCurve,
    Chart,
    ComparedRun,
    arms,
    other_problems,
    quarter,
    runs_of,
    with_values,
)
from redqueen.base.intervals import Interval, interval, interval_text
from redqueen.base.machine import clock
from redqueen.run.recording.measures import cells_of
from redqueen.run.recording.metrics import Panel
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import MeasureRow
from redqueen.store.directory import RunDirectory, RunError
from redqueen.store.files import damage_of
from redqueen.tasks.programs.coverage import rarefied

# Rarefied counts go back to the first step in either quarter, and their names say so.
_QUANTITIES = (
    ("solve rate, mean of the kinds", "solve-rate", "mean of kinds"),
    ("contested tasks, share", "contested", "all"),
    ("valid proposals, share", "valid-rate", "all"),
    ("nodes of a program, as written", "nodes", "as written"),
    ("nodes of a program, reached", "nodes", "reached"),
    ("cyclomatic complexity, as written", "cyclomatic", "as written"),
    ("cyclomatic complexity, reached", "cyclomatic", "reached"),
    ("lines, as written", "lines", "as written"),
    ("lines, reached", "lines", "reached"),
    ("different programs in 100 tasks since step 1", "rarefied-programs", "in 100 tasks"),
    ("paths of syntax in 100 tasks since step 1", "rarefied-paths", "in 100 tasks"),
    ("paths of syntax in 1,000 nodes since step 1", "rarefied-paths", "in 1,000 nodes"),
    ("signatures in 100 tasks since step 1", "rarefied-signatures", "in 100 tasks"),
    ("new programs, share", "new-shapes", "new"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What an arm's runs cost, the mean over its runs."""

    arm: str
    runs: int
    verdicts: dict[str, int]
    steps: float
    tokens_sampled: float
    tokens_trained: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One number of one arm: the mean over its runs, with a 95 % interval from two runs on."""

    name: str
    arm: str
    first: Interval | None
    """Over the first quarter of each run's steps."""
    last: Interval | None
    """Over the last quarter."""

    @classmethod
    def of(cls, name: str, arm: Arm, value: Callable[[ComparedRun, bool], float | None]) -> Quantity:
        """Returns the quantity that `value` gives of a run, of its last quarter or of its first."""
        first, last = (
            [number for run in arm.runs if (number := value(run, late)) is not None] for late in (False, True)
        )
        return cls(name=name, arm=arm.name, first=interval(first), last=interval(last))


def budget(arm: Arm) -> Budget:
    """Returns what the runs of an arm cost."""
    runs = arm.runs
    return Budget(
        arm=arm.name,
        runs=len(runs),
        verdicts=dict(Counter(run.verdict.word for run in runs)),
        steps=fmean([len(run.lines) for run in runs]),
        tokens_sampled=fmean([_total(run, "tokens_sampled") for run in runs]),
        tokens_trained=fmean([_total(run, "tokens_trained") for run in runs]),
        seconds=fmean([_seconds(run) for run in runs]),
    )


def _total(run: ComparedRun, key: Literal["tokens_sampled", "tokens_trained"]) -> int:
    return sum(line[key] for line in run.lines)


def _seconds(run: ComparedRun) -> float:
    return sum(line["seconds"]["total"] for line in run.lines)


BUDGET_HEAD = ("arm", "runs", "verdict", "steps", "tokens sampled", "tokens trained", "time")


def budget_rows(costs: Sequence[Budget]) -> list[list[str]]:
    """Returns what each arm cost as texts, below `BUDGET_HEAD`."""
    rows: list[list[str]] = []
    for cost in costs:
        words = ", ".join(f"{word} ({count})" if cost.runs > 1 else word for word, count in cost.verdicts.items())
        tokens = (f"{cost.tokens_sampled:,.0f}", f"{cost.tokens_trained:,.0f}")
        rows.append([cost.arm, str(cost.runs), words, f"{cost.steps:g}", *tokens, clock(cost.seconds)])
    return rows


def quantities(arms: Sequence[Arm]) -> list[Quantity]:
    """Returns the quantities that some run has, quantity by quantity."""
    table: list[Quantity] = []
    for name, panel, label in _QUANTITIES:
        rows = [_quantity(name, arm, panel, label) for arm in arms]
        if any(row.last is not None for row in rows):
            table += rows
    return table


def _quantity(name: str, arm: Arm, panel: str, label: str) -> Quantity:
    return Quantity.of(name, arm, lambda run, last: quarter(run, panel, label, last=last))


def quantity_rows(table: Sequence[Quantity], arms: int, arrow: str, missing: str) -> list[list[str]]:
    """Returns a row for each quantity: its name, and what it was and became in each of the arms."""
    rows: list[list[str]] = []
    for start in range(0, len(table), arms):
        row = table[start : start + arms]
        rows.append(
            [
                row[0].name,
                *(f"{_text(quantity.first, missing)} {arrow} {_text(quantity.last, missing)}" for quantity in row),
            ]
        )
    return rows


def _text(number: Interval | None, missing: str) -> str:
    return missing if number is None else interval_text(number, ".2f" if abs(number.mean) < 10 else ".1f")


def run_row(run: ComparedRun) -> dict[str, object]:
    """Returns one run as a row of a table."""
    return {
        "run": run.name,
        "arm": run.arm,
        "recipe": run.config.recipe,
        "seed": run.config.run.seed,
        "steps": len(run.lines),
        "tokens_sampled": _total(run, "tokens_sampled"),
        "tokens_trained": _total(run, "tokens_trained"),
        "seconds": round(_seconds(run), 1),
        "verdict": run.verdict.word,
        "reason": run.verdict.reason,
    }


# How broad the tasks of the arms are: what needs the archive, at equal numbers of tasks.
#
# Coverage is rarefied, so that runs of different lengths compare. The Vendi score is the effective number of
# different tasks in a set (Friedman and Dieng 2023, arXiv:2210.02410): the exponential of the entropy of the
# eigenvalues of K / n, where K holds the similarities of n tasks. It is 1 if all are the same and n if no two share
# anything. Here a task is the set of syntax paths of its reached program, and two tasks are as similar as the cosine
# of their sets: the paths that both have, over the geometric mean of how many each has.

_POINTS = 24


def levels(tasks: int) -> tuple[int, ...]:
    """Returns numbers of tasks from 1 to `tasks`, closer together at the start, where a curve bends most."""
    numbers = [round(tasks * ((i + 1) / _POINTS) ** 2) for i in range(_POINTS)]
    return tuple(sorted({max(1, number) for number in numbers})) if tasks else ()


def rarefaction(rows: Sequence[MeasureRow], what: str, at: Sequence[int]) -> list[float]:
    """Returns the expected number of different cells in so many tasks, drawn from all of `rows` without replacement.

    It is the rarefied count (docs/reference/METRICS.md) for every number in `at`; none may be above len(rows).
    """
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(set(cells_of(row)[what]))
    return [rarefied(counts.values(), len(rows), level) for level in at]


_DRAWS = 20


def vendi_score(tasks: Sequence[Collection[str]]) -> float | None:
    """Returns the score of tasks that are given as sets of features, None without any."""
    if not tasks:
        return None
    columns = {feature: i for i, feature in enumerate(sorted({feature for task in tasks for feature in task}))}
    # A task without a feature is like all others without one, and like nothing else.
    features_TF = np.zeros((len(tasks), len(columns) + 1))
    for row, task in enumerate(tasks):
        for feature in task:
            features_TF[row, columns[feature]] = 1
        if not task:
            features_TF[row, -1] = 1
    features_TF /= np.linalg.norm(features_TF, axis=1, keepdims=True)
    # The squares of the singular values are the eigenvalues of K.
    weights = np.linalg.svd(features_TF, compute_uv=False) ** 2 / len(tasks)
    weights = weights[weights > 1e-12]
    return float(np.exp(-np.sum(weights * np.log(weights))))


def rarefied_vendi_score(tasks: Sequence[Collection[str]], size: int) -> float | None:
    """Returns the mean score of `size` tasks drawn from `tasks`, None if there are fewer.

    The score grows with the number of tasks, so sets of different sizes are compared at the same one.
    """
    if len(tasks) < size or not size:
        return None
    draws = 1 if len(tasks) == size else _DRAWS
    # The draws are the same each time, so that a comparison that is made twice gives the same numbers.
    rng = random.Random(0)
    scores = [vendi_score(rng.sample(list(tasks), size)) for _ in range(draws)]
    return fmean(score for score in scores if score is not None)


VENDI_TASKS = 40
"""Tasks of which a Vendi score is taken. A quarter of a quickstart of 30 steps has about 100."""
_TITLES = {
    "programs": "programs up to names and constants",
    "paths": "paths of syntax",
    "functions": "functions of the library",
    "signatures": "types of inputs and outputs",
}

Rows = Mapping[str, Sequence[MeasureRow]]
"""By the name of a run: the measures of all tasks that its members wrote."""


def measures(arms: Sequence[Arm]) -> tuple[dict[str, Sequence[MeasureRow]], list[str]]:
    """Returns the measures of each run, and why a run has none: an archive of a former version, say."""
    rows: dict[str, Sequence[MeasureRow]] = {}
    missing: list[str] = []
    for run in runs_of(arms):
        try:
            with ArchiveReader(RunDirectory(run.path).archive) as archive:
                rows[run.name] = archive.measures_of_members()
        except RunError as error:
            missing.append(f"{run.name} has no measures of its tasks: {error}")
    return rows, missing


def rarefaction_charts(arms: Sequence[Arm], rows: Rows) -> list[Chart]:
    """Returns how many different cells the arms have over numbers of tasks, up to the shortest run of each arm."""
    counts = [len(rows[run.name]) for run in runs_of(arms) if rows.get(run.name)]
    if not counts:
        return []
    at = tuple(sorted({level for tasks in counts for level in levels(tasks)}))
    charts: list[Chart] = []
    for what, title in _TITLES.items():
        curves = [_arm_curve(arm, rows, what, at) for arm in arms]
        panel = Panel(
            key=f"rarefaction-{what}",
            section="coverage",
            title=f"Different {title}",
            unit="number",
            note="The expected number in so many tasks, drawn without replacement from all tasks of a run. The higher "
            "curve is the broader run, whatever their lengths.",
            low=0,
            high=None,
            steps=at,
            curves={},
        )
        charts.append(Chart(panel=panel, label="whole run", steps=at, curves=with_values(curves), along="tasks"))
    return charts


def vendi_quantities(arms: Sequence[Arm], rows: Rows) -> list[Quantity]:
    """Returns the Vendi score of equally many tasks of the first and of the last quarter of each run."""
    table: list[Quantity] = []
    for arm in arms:
        name = f"Vendi score of {VENDI_TASKS} tasks"
        table.append(Quantity.of(name, arm, lambda run, last: _vendi(run, rows, last=last)))
    return table if any(row.last is not None for row in table) else []


def _vendi(run: ComparedRun, rows: Rows, *, last: bool) -> float | None:
    steps = [line["step"] for line in run.lines]
    quarter = max(1, len(steps) // 4)
    chosen = set(steps[-quarter:] if last else steps[:quarter])
    tasks = [row.paths.split() for row in rows.get(run.name, ()) if row.step in chosen]
    return rarefied_vendi_score(tasks, VENDI_TASKS)


def _arm_curve(arm: Arm, rows: Rows, what: str, at: Sequence[int]) -> ArmCurve:
    measured = [rows[run.name] for run in arm.runs if rows.get(run.name)]
    if not measured:
        return ArmCurve(arm=arm.name, points=(None,) * len(at))
    shortest = min(map(len, measured))
    within = [level for level in at if level <= shortest]
    columns = [rarefaction(of_run, what, within) for of_run in measured]
    points = [interval(values) for values in zip(*columns, strict=True)]
    return ArmCurve(arm=arm.name, points=(*points, *[None] * (len(at) - len(within))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs side by side."""

    arms: Sequence[Arm]
    rows: Mapping[str, Sequence[MeasureRow]]
    """The measures of each run's tasks."""
    remarks: Sequence[str]
    """One line for each run without measures, and one if the runs were asked different held-out problems."""
    costs: Sequence[Budget]
    table: Sequence[Quantity]

    def document(self) -> dict[str, list[dict[str, Any]]]:
        """Returns everything as plain data: arms, quantities and runs."""
        return {
            "arms": list(map(asdict, self.costs)),
            "quantities": list(map(asdict, self.table)),
            "runs": [run_row(run) for run in runs_of(self.arms)],
        }


def compare(paths: Sequence[Path], by: str) -> Comparison:
    """Returns runs side by side, pooled by a setting. Raises UserError for what cannot be read or compared."""
    read = arms(paths, by)
    rows, missing = measures(read)
    with damage_of("one of the runs"):
        costs = [budget(arm) for arm in read]
        table = [*quantities(read), *vendi_quantities(read, rows)]
    return Comparison(arms=read, rows=rows, remarks=[*missing, *other_problems(read)], costs=costs, table=table)
