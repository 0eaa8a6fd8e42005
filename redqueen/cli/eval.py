"""`redqueen eval`: what members, adapters and the bare base solve, on the reserved programs and on benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console

from redqueen.analysis.drawing import HUES, write_figure
from redqueen.base.intervals import interval_text
from redqueen.cli.eval_table import (
    Cells,
    markdown,
    member_table,
    notes,
    paper_table,
    percent,
    rich_table,
    weakest_lines,
)
from redqueen.cli.tables import table_console
from redqueen.errors import UserError
from redqueen.evals import contamination, paper
from redqueen.evals.paper import row_title
from redqueen.evals.scores import Point, Results, curves
from redqueen.evals.targets import Step
from redqueen.members.evaluating import EvalOptions, document, evaluate_targets
from redqueen.run.recording.lines import Lines
from redqueen.run.recording.plain_console import PlainConsole, TaskReporter
from redqueen.store.directory import RunDirectory, write_json, write_text

# The learning curves of an evaluation as a table, as plain data and as a figure.

FIGURE = "curve.png"


def curve_table(results: Results) -> Cells:
    """Returns a row for each benchmark and checkpoint: the members' mean, its gain over the first, and pass@k."""
    passes = _all_passes(results)
    rows = [["run", "benchmark", "step", "members", "solved %", "gain over the first", *(f"pass@{k}" for k in passes)]]
    for column in results.columns():
        for run, points in curves(results, column).items():
            for point in points:
                rows.append(
                    [
                        run,
                        row_title(results, column),
                        str(point.step),
                        " ".join(point.members),
                        percent(point.score),
                        interval_text(point.gain, "+.1f", 100),
                        *(f"{100 * point.pass_at[k]:.1f}" if k in point.pass_at else "-" for k in passes),
                    ]
                )
    return rows


def curve_document(results: Results) -> dict[str, object]:
    """Returns the curves as plain data, by benchmark and run."""
    return {
        column: {run: list(map(asdict, points)) for run, points in curves(results, column).items()}
        for column in results.columns()
    }


def curve_figure(results: Results) -> Figure:
    """Returns a chart for each benchmark: the members' mean over the steps, with its interval over problems."""
    columns = results.columns()
    figure = Figure(figsize=(4.6 * len(columns), 3.4), layout="constrained")
    for index, column in enumerate(columns, 1):
        axes = figure.add_subplot(1, len(columns), index)
        for number, (run, points) in enumerate(curves(results, column).items()):
            colour = HUES[number % len(HUES)]
            steps = [point.step for point in points]
            axes.plot(steps, [100 * point.score.mean for point in points], "o-", color=colour, label=run)
            axes.fill_between(steps, _ends(points, "low"), _ends(points, "high"), color=colour, alpha=0.15)
        axes.set_title(row_title(results, column), fontsize=10)
        axes.set_xlabel("step")
        axes.set_ylabel("solved, % (95 % interval over problems)" if index == 1 else "")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=7, frameon=False)
    return figure


def _ends(points: Sequence[Point], end: str) -> list[float]:
    percents: list[float] = []
    for point in points:
        value: float | None = getattr(point.score, end)
        percents.append(100 * (point.score.mean if value is None else value))
    return percents


def _all_passes(results: Results) -> list[int]:
    """Returns the k of pass@k that are worth a column: 4 and 16, as far as there are so many samples, or the most."""
    most: Mapping[int, float] = {}
    for cells in results.cells.values():
        most = max(most, cells[0].pass_at, key=len)
    wanted = [k for k in (4, 16) if k in most]
    return wanted or [k for k in most if k > 1][-1:]


MARKDOWN = "results.md"
JSON = "results.json"


def as_step(text: str | None) -> Step:
    """Returns what the option --step means. Raises UserError if it is neither a number nor "all"."""
    if text is None or text == "all":
        return text
    if not text.isdecimal():
        raise UserError(f"--step {text}: give the number of a step, or all")
    return int(text)


def run_eval(targets: Sequence[str], members: str, model: str | None, wanted: EvalOptions, *, as_json: bool) -> int:
    """Evaluates the targets and prints the table; returns the exit code.

    Raises UserError if a target, a benchmark or an option cannot be used.
    """
    # Progress goes to standard error: --json is for pipes.
    progress = PlainConsole(stderr=True)
    with TaskReporter(progress) as report:
        evaluated = evaluate_targets(targets, members, model, wanted, Lines(progress), report)
    results, plan = evaluated.results, evaluated.plan
    runs = [target for target in dict.fromkeys(targets) if RunDirectory(Path(target)).archive.exists()]
    overlaps, overlap_notes = contamination.notes(runs, results.benchmarks)
    sentences = [*weakest_lines(results), *overlap_notes]
    table = paper.document(results, sentences, notes(results.benchmarks, plan))
    # The page shows what a run has come to, and a run's curve has other columns.
    for run in runs if wanted.step is None else ():
        _keep(RunDirectory(Path(run)), table, progress)
    whole = document(results, plan, evaluated.base, overlaps)
    if wanted.step == "all":
        whole["curves"] = curve_document(results)
    if wanted.out is not None:
        write_text(wanted.out / MARKDOWN, markdown(results, plan, sentences))
        write_text(wanted.out / JSON, json.dumps(whole, indent=1) + "\n")
        if wanted.step == "all":
            write_figure(curve_figure(results), wanted.out / FIGURE)
    if as_json:
        print(json.dumps(whole, indent=1))
        return 0
    console = table_console()
    if wanted.step == "all":
        console.print(rich_table(curve_table(results)))
    else:
        console.print(rich_table(paper_table(results)))
        console.print()
        console.print(rich_table(member_table(results)))
    console.print()
    for line in [*sentences, *notes(results.benchmarks, plan)]:
        console.print(line, soft_wrap=True)
    return 0


def _keep(run: RunDirectory, table: Mapping[str, object], console: Console) -> None:
    """Writes the table into a run's folder, where its report and its live page find it."""
    try:
        write_json(run.evaluation, table)
    except OSError as error:
        console.print(
            f"the report of {run.path} will not show this: cannot write {run.evaluation}: {error.strerror}",
            markup=False,
            soft_wrap=True,
        )
