"""`redqueen compare`: runs and arms side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from redqueen.analysis.compare import compare
from redqueen.analysis.compare.arms import Arm, runs_of
from redqueen.analysis.compare.breadth import rarefaction_charts
from redqueen.analysis.compare.charts import QUESTIONS, Chart, charts, gain_charts
from redqueen.analysis.compare.files import write_files
from redqueen.analysis.compare.summary import BUDGET_HEAD, Budget, Quantity, budget_rows, quantity_rows
from redqueen.cli.tables import plain_table, progress_console, table_console
from redqueen.errors import UserError
from redqueen.extras.page.comparison import comparison_page
from redqueen.extras.page.headline import better, health
from redqueen.store.directory import write_text
from redqueen.store.files import to_json

FIRST = (
    "solve rate, mean of the kinds",
    "nodes of a program, reached",
    "different programs in 100 tasks since step 1",
    "paths of syntax in 1,000 nodes since step 1",
    "new programs, share",
)
"""The numbers that are printed without --all: what the kinds of tasks are like, and how many different ones."""
NOTES = """\
Means over the runs of an arm; [..]: 95 % intervals over runs (Student's t), from two runs on. Rates are in sample:
measured against the run's own opponents, on what it trains on. docs/reference/METRICS.md defines the numbers."""


def run_compare(paths: Sequence[Path], by: str, out: Path | None, *, as_json: bool, everything: bool = False) -> int:
    """Prints the tables and writes the folder, if one is asked for; returns the exit code.

    Without `everything` there are the numbers and figures of three questions.
    Raises UserError for what cannot be read, compared or written.
    """
    compared = compare(paths, by)
    if as_json:
        print(to_json(compared.document(), indent=1))
    else:
        table = compared.table
        shown = table if everything else [row for row in table if row.name in FIRST]
        _show(compared.arms, compared.costs, shown)
    for line in compared.remarks:
        _progress(line)
    if out is not None:
        read = compared.arms
        drawn = [*gain_charts(read), *rarefaction_charts(read, compared.rows), *charts(read)]
        _write(out, read, drawn, compared.table, everything=everything)
    return 0


def _write(
    out: Path, read: Sequence[Arm], drawn: Sequence[Chart], table: Sequence[Quantity], *, everything: bool
) -> None:
    try:
        files = write_files(out, read, drawn, everything=everything)
        page = out / "index.html"
        write_text(page, comparison_page(read, drawn, table))
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from error
    _progress(f"wrote {page} and {len(files)} files next to it")


def _progress(line: str) -> None:
    progress_console().print(line)


def _show(read: Sequence[Arm], costs: Sequence[Budget], table: Sequence[Quantity]) -> None:
    console = table_console()
    better_title, curriculum_title, health_title = (question.title for question in QUESTIONS)
    console.print(better_title, style="bold")
    for run in runs_of(read):
        answer = better(run.lines, run.config.evals.every, run.config.run.steps)
        console.print(f"{run.name}: {answer['value']}. {answer['text']}", soft_wrap=True)
    console.print(f"\n{curriculum_title}", style="bold")
    names = [arm.name for arm in read]
    numbers = plain_table("first quarter -> last quarter of the steps", *names)
    for row in quantity_rows(table, len(names), "->", "-"):
        numbers.add_row(*row)
    console.print(numbers)
    console.print(f"\n{health_title}", style="bold")
    for run in runs_of(read):
        answer = health(run.lines)
        console.print(f"{run.name}: {answer['value']}. {answer['text']}", soft_wrap=True)
        console.print(f"  {run.verdict.title}: {run.verdict.word}. {run.verdict.reason}", soft_wrap=True)
    console.print()
    budgets = plain_table(*BUDGET_HEAD)
    for row in budget_rows(costs):
        budgets.add_row(*row)
    console.print(budgets)
    console.print(NOTES, soft_wrap=True)
