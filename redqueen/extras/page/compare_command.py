"""`redqueen compare`: runs and arms side by side."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from redqueen.analysis.compare import (
    BUDGET_HEAD,
    Budget,
    Quantity,
    budget_rows,
    compare,
    quantity_rows,
    rarefaction_charts,
    run_row,
)
from redqueen.analysis.compare.arms import (
    GAIN,
    QUESTIONS,
    Arm,
    ArmCurve,
    Chart,
    answering,
    charts,
    gain_charts,
    runs_of,
)
from redqueen.analysis.drawing import HUES, write
from redqueen.errors import UserError
from redqueen.extras.page.comparison import comparison_page
from redqueen.extras.page.headline import better, health
from redqueen.run.recording.plain_console import plain_table, progress_console, table_console
from redqueen.store.directory import check_free, write_text
from redqueen.store.files import to_json

# The folder of a comparison: its charts as figures for papers, and the numbers behind each.

_COLUMNS = 3
_SMOOTHED = 5
"""Steps of the running mean that is drawn over a single run's curve."""
_STYLES = ("-", "--", ":", "-.")


def draw(charts: Sequence[Chart], arms: Sequence[str]) -> Figure:
    """Returns these charts side by side.

    An arm of several runs is their mean in a band, its 95 % interval. An arm of one run is a pale curve with its
    running mean over five steps.
    """
    columns = min(_COLUMNS, len(charts))
    rows = -(-len(charts) // columns)
    figure = Figure(figsize=(3.9 * columns, 2.9 * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, chart in zip(grid.flat, charts, strict=False):
        _chart(axes, chart, arms)
    for axes in list(grid.flat)[len(charts) :]:
        axes.remove()
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), fontsize=9, frameon=False)
    return figure


def _chart(axes: Axes, chart: Chart, arms: Sequence[str]) -> None:
    by_arm = {curve.arm: curve for curve in chart.curves}
    for index, arm in enumerate(arms):
        hue = HUES[index % len(HUES)]
        style = _STYLES[index % len(_STYLES)]
        if arm in by_arm:
            # A curve over numbers of tasks is an expectation, and held-out gains are few and start at 0: neither is
            # smoothed.
            smooth = chart.along == "step" and chart.key != GAIN
            _curve(axes, chart.steps, by_arm[arm], hue, style, smooth=smooth)
        else:
            axes.plot([], [], color=hue, ls=style, label=arm)
    axes.set_title(f"{chart.panel.title}\n{chart.label}", loc="left", fontsize=9)
    axes.set_xlabel(chart.along, fontsize=8)
    axes.set_ylabel(chart.panel.unit, fontsize=8)
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["right", "top"]].set_visible(False)
    if chart.panel.low is not None and chart.panel.high is not None:
        room = 0.03 * (chart.panel.high - chart.panel.low)
        axes.set_ylim(chart.panel.low - room, chart.panel.high + room)
    elif chart.panel.low is not None:
        axes.set_ylim(bottom=chart.panel.low)


def _curve(axes: Axes, steps: Sequence[int], curve: ArmCurve, hue: str, style: str, *, smooth: bool) -> None:
    # Arms may have values at different steps, and a curve would break where another one has a point.
    drawn = [(step, point) for step, point in zip(steps, curve.points, strict=True) if smooth or point is not None]
    steps = [step for step, _ in drawn]
    mean = np.array([np.nan if point is None else point.mean for _, point in drawn])
    low = np.array([np.nan if point is None or point.low is None else point.low for _, point in drawn])
    high = np.array([np.nan if point is None or point.high is None else point.high for _, point in drawn])
    # A band where some step has an interval; the others have too few runs for one.
    if not np.all(np.isnan(low)):
        axes.fill_between(steps, low, high, color=hue, alpha=0.18, lw=0)
        axes.plot(steps, mean, color=hue, ls=style, lw=1.7, label=curve.arm)
        return
    if not smooth:
        axes.plot(steps, mean, color=hue, ls=style, lw=1.7, label=curve.arm)
        return
    axes.plot(steps, mean, color=hue, ls=style, lw=0.8, alpha=0.45)
    axes.plot(steps, _running_mean(mean), color=hue, ls=style, lw=1.9, label=curve.arm)


def _running_mean(values: np.ndarray) -> np.ndarray:
    """Returns the mean of up to five steps around each that lies between the first and the last value."""
    reach = _SMOOTHED // 2
    smooth = np.full(len(values), np.nan)
    present = np.flatnonzero(~np.isnan(values))
    for i in range(present[0], present[-1] + 1):
        near = values[max(0, i - reach) : i + reach + 1]
        measured = near[~np.isnan(near)]
        if len(measured):
            smooth[i] = measured.mean()
    return smooth


FIGURES = (
    *("solve-rate", "solve-rate-by-kind", "contested", "valid-rate", "rewards", "entropy"),
    *("nodes", "depth", "cyclomatic", "lines", "variables", "dead-code", "lines-by-kind"),
    *("covered-programs", "rarefied-programs", "rarefied-paths", "rarefied-functions", "rarefied-signatures"),
    *("rarefied-behaviours", "new-shapes", "new-ideas", "guessable"),
    *("rarefaction-programs", "rarefaction-paths", "rarefaction-functions", "rarefaction-signatures"),
)
"""The panels that have a figure if all are wanted; curves.csv has the numbers of every curve."""


def write_files(folder: Path, arms: Sequence[Arm], charts: Sequence[Chart], *, everything: bool = False) -> list[Path]:
    """Writes figures (PNG and SVG) and numbers (CSV); returns the files. Raises OSError if that fails.

    There is a figure for each question that a reader asks first, and with `everything` one for each of `FIGURES`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [arm.name for arm in arms]
    # The first one marks the folder as a comparison's, also if the rest is not written.
    written = [_table(folder / "curves.csv", _points(charts))]
    figures = {question.key: shown for question, shown in answering(charts)}
    for key in FIGURES if everything else ():
        figures[key] = [chart for chart in charts if chart.panel.key == key]
    for key, shown in figures.items():
        if not shown:
            continue
        figure = draw(shown, names)
        for ending in (".png", ".svg"):
            write(figure, folder / f"{key}{ending}")
            written.append(folder / f"{key}{ending}")
        written.append(_table(folder / f"{key}.csv", _points(shown)))
    written.append(_table(folder / "runs.csv", [run_row(run) for run in runs_of(arms)]))
    return written


def _points(charts: Sequence[Chart]) -> list[dict[str, object]]:
    """Returns one row for each arm and step: the mean over the arm's runs, its 95 % interval, and how many runs."""
    rows: list[dict[str, object]] = []
    for chart in charts:
        for curve in chart.curves:
            for step, point in zip(chart.steps, curve.points, strict=True):
                if point is not None:
                    rows.append(
                        {
                            "panel": chart.panel.key,
                            "curve": chart.label,
                            "unit": chart.panel.unit,
                            "arm": curve.arm,
                            "step": step,
                            "mean": point.mean,
                            "low": point.low,
                            "high": point.high,
                            "runs": point.n,
                        }
                    )
    return rows


def _table(file: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(file, text.getvalue())
    return file


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
    # An earlier comparison may be written again.
    if out is not None and not (out / "curves.csv").exists():
        check_free(out)
    compared = compare(paths, by)
    if as_json:
        print(to_json(compared.document(), indent=1))
    else:
        table = compared.table
        shown = table if everything else [row for row in table if row.name in FIRST]
        _show(compared.arms, compared.costs, shown)
    progress = progress_console()
    for line in compared.remarks:
        progress.print(line)
    if out is None:
        return 0
    read = compared.arms
    drawn = [*gain_charts(read), *rarefaction_charts(read, compared.rows), *charts(read)]
    page = out / "index.html"
    try:
        files = write_files(out, read, drawn, everything=everything)
        write_text(page, comparison_page(read, drawn, compared.table))
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from error
    progress.print(f"wrote {page} and {len(files)} files next to it")
    return 0


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
