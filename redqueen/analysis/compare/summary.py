"""What the arms of a comparison came to: budgets, verdicts, and the quantities of the paper's claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from redqueen.analysis.compare.arms import Arm, ComparedRun
from redqueen.analysis.compare.charts import quarter
from redqueen.base.intervals import Interval, interval, interval_text
from redqueen.base.machine import clock

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
