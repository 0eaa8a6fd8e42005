"""The learning curves of an evaluation as a table, as plain data and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from matplotlib.figure import Figure

from redqueen.analysis.hues import HUES
from redqueen.base.intervals import interval_text
from redqueen.cli.eval_table import Cells, percent
from redqueen.evals.curve import Point, curves
from redqueen.evals.paper import row_title
from redqueen.evals.scores import Results

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
