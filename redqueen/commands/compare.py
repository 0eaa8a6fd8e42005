"""`redqueen compare`: runs and arms side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from redqueen.analysis.compare.arms import Arm
from redqueen.analysis.compare.breadth import rarefaction_charts
from redqueen.analysis.compare.charts import Chart, charts
from redqueen.analysis.compare.compared import compare
from redqueen.analysis.compare.files import write_files
from redqueen.analysis.compare.summary import Budget, Quantity
from redqueen.commands.tables import table_console
from redqueen.errors import UserError
from redqueen.intervals import Interval
from redqueen.machine import clock
from redqueen.runs.directory import write_text
from redqueen.runs.files import to_json
from redqueen.web.report.comparison import comparison_page

NOTES = """\
Means over the runs of an arm; [..]: 95 % intervals over runs (Student's t), from two runs on. Rates are in sample:
measured against the run's own opponents, on what it trains on. docs/METRICS.md defines the numbers and the verdict."""


def run_compare(paths: Sequence[Path], by: str, out: Path | None, *, as_json: bool) -> int:
    """Prints the tables and writes the folder, if one is asked for; returns the exit code.

    Raises UserError for what cannot be read, compared or written.
    """
    compared = compare(paths, by)
    if as_json:
        print(to_json(compared.document(), indent=1))
    else:
        _show(compared.arms, compared.costs, compared.table)
    for line in compared.missing:
        _progress(line)
    if out is not None:
        drawn = [*rarefaction_charts(compared.arms, compared.rows), *charts(compared.arms)]
        _write(out, compared.arms, drawn, compared.table)
    return 0


def _write(out: Path, read: Sequence[Arm], drawn: Sequence[Chart], table: Sequence[Quantity]) -> None:
    try:
        files = write_files(out, read, drawn)
        page = out / "index.html"
        write_text(page, comparison_page(read, drawn, table))
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from error
    _progress(f"wrote {page} and {len(files)} files next to it")


def _progress(line: str) -> None:
    # On standard error, because standard output may be JSON that another program reads.
    Console(stderr=True, highlight=False, soft_wrap=True).print(line, markup=False)


def _show(read: Sequence[Arm], costs: Sequence[Budget], table: Sequence[Quantity]) -> None:
    console = table_console()
    budgets = _table("arm", "runs", "verdict", "steps", "tokens sampled", "tokens trained", "time")
    for cost in costs:
        words = ", ".join(f"{word} ({count})" if cost.runs > 1 else word for word, count in cost.verdicts.items())
        budgets.add_row(
            cost.arm,
            str(cost.runs),
            words,
            f"{cost.steps:g}",
            f"{cost.tokens_sampled:,.0f}",
            f"{cost.tokens_trained:,.0f}",
            clock(cost.seconds),
        )
    console.print(budgets)
    console.print()
    names = [arm.name for arm in read]
    numbers = _table("first quarter -> last quarter of the steps", *names)
    for start in range(0, len(table), len(names)):
        row = table[start : start + len(names)]
        numbers.add_row(row[0].name, *(f"{_text(each.first)} -> {_text(each.last)}" for each in row))
    console.print(numbers)
    console.print()
    for arm in read:
        for run in arm.runs:
            console.print(f"{run.name}: {run.verdict.word}. {run.verdict.reason}", soft_wrap=True, markup=False)
    console.print(NOTES, soft_wrap=True, markup=False)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _text(number: Interval | None) -> str:
    if number is None:
        return "-"
    digits = 2 if abs(number.mean) < 10 else 1
    ends = "" if number.low is None else f" \\[{number.low:.{digits}f}, {number.high:.{digits}f}]"
    return f"{number.mean:.{digits}f}{ends}"
