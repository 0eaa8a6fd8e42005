"""The folder of a comparison: figures, and the numbers behind each."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from redqueen.analysis.compare.arms import Arm, runs_of
from redqueen.analysis.compare.charts import Chart, answering
from redqueen.analysis.compare.figures import draw
from redqueen.analysis.compare.summary import run_row
from redqueen.analysis.drawing import write
from redqueen.store.directory import write_text

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
    written: list[Path] = []
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
    written.append(_table(folder / "curves.csv", _points(charts)))
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
