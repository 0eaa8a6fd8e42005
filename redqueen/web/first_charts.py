"""The four charts that the overview opens with: better than the start, healthy, who wins, how hard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from redqueen.web.headline import contested_share

Line = Mapping[str, Any]
MANY = 6
"""With more students than this the chart of held-out gains shows the living ones, and of more of them the best."""


def first_charts(lines: Sequence[Line]) -> list[dict[str, object]]:
    """Returns the charts, as `static/charts.js` draws them; one without a value is left out."""
    charts = [_gain(lines), _health(lines), _winners(lines), _solved(lines)]
    return [chart for chart in charts if chart["curves"]]


def _gain(lines: Sequence[Line]) -> dict[str, Any]:
    """Returns how far each student is above the start on held-out problems, in points, with its interval."""
    measured = [line for line in lines if line.get("held_out")]
    students = [line["held_out"]["students"] for line in measured]
    names = dict.fromkeys(name for scores in students for name in scores)
    first = (lines[0].get("members") or {}) if lines else {}
    living = (lines[-1].get("members") or {}) if lines else {}
    shown = list(names)
    if len(shown) > MANY:
        # Who was replaced is less to a reader than who lives.
        shown = [name for name in names if name in living]
    if len(shown) > MANY:
        shown = sorted(shown, key=lambda name: -(students[-1].get(name) or {"gain": -1})["gain"])[:MANY]

    def column(name: str, key: str) -> list[float | None]:
        # What all started from is the start, by definition.
        found: list[float | None] = [0.0 if first.get(name, {}).get("born") == 0 else None]
        for scores in students:
            value = (scores.get(name) or {}).get(key)
            found.append(None if value is None else 100 * value)
        return found

    if not measured:
        return _chart([], "gain", "", "", "", [])
    curves: list[dict[str, Any]] = [
        {"label": name, "values": column(name, "gain"), "low": column(name, "low"), "high": column(name, "high")}
        for name in shown
    ]
    if len(shown) < len(names):
        gains = [[score["gain"] for score in scores.values()] for scores in students]
        means = [100 * fmean(each) if each else None for each in gains]
        curves.insert(0, {"label": "mean of the students", "values": [0.0, *means]})
    note = (
        "Right answers on held-out problems, which nobody is trained or selected by: percentage points from the start, "
        "with 95 % intervals over problems. A student is better if its band is above 0."
    )
    chart = _chart(measured, "gain", "Better than the start?", "points", note, curves)
    return {**chart, "steps": [0, *chart["steps"]], "plain": True, "zero": True}


def _health(lines: Sequence[Line]) -> dict[str, Any]:
    curves = [
        {"label": "valid proposals", "values": [line.get("valid_rate") for line in lines]},
        {"label": "contested tasks", "values": [contested_share(line) for line in lines]},
    ]
    note = "Only tasks that a student solves sometimes, but not always, teach it something. In sample."
    return _chart(lines, "health", "Healthy? Valid and contested", "share", note, curves, high=1)


def _winners(lines: Sequence[Line]) -> dict[str, Any]:
    def shares(side: str) -> list[float | None]:
        found: list[float | None] = []
        for line in lines:
            outcomes: Mapping[str, int] = line.get("outcomes") or {}
            played = sum(outcomes.values())
            found.append(outcomes.get(side, 0) / played if played else None)
        return found

    curves = [
        {"label": "students", "values": shares("student")},
        {"label": "teachers", "values": shares("teacher")},
        {"label": "drawn", "values": shares("draw")},
    ]
    note = "Shares of the rated games. A student wins if it solves more than par, the running solve rate."
    return _chart(lines, "winners", "Who wins?", "share", note, curves, high=1)


def _solved(lines: Sequence[Line]) -> dict[str, Any]:
    kinds = dict.fromkeys(kind for line in lines for kind in line.get("solve_rate_by_kind") or {})
    curves: list[dict[str, Any]] = []
    for kind in kinds:
        values = [(line.get("solve_rate_by_kind") or {}).get(kind) for line in lines]
        curves.append({"label": kind, "values": values})
    note = "Right answers by kind of task, in sample: it rises if students learn, and if teachers write easier tasks."
    return _chart(lines, "solved", "How much do students solve?", "share", note, curves, high=1)


def _chart(
    lines: Sequence[Line],
    key: str,
    title: str,
    unit: str,
    note: str,
    curves: Sequence[Mapping[str, Any]],
    *,
    high: float | None = None,
) -> dict[str, Any]:
    return {
        "key": f"first-{key}",
        "section": "first",
        "title": title,
        "unit": unit,
        "note": note,
        "low": None if high is None else 0,
        "high": high,
        "steps": [line["step"] for line in lines],
        "curves": [curve for curve in curves if any(value is not None for value in curve["values"])],
    }
