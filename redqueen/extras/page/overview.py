"""The overview: what a reader asks first, as numbers and four charts, and all other charts by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from redqueen.analysis.compare.charts import mean_gain
from redqueen.base.intervals import mean
from redqueen.extras.page.headline import RECENT, better, health
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.questions import QUESTIONS, question_of
from redqueen.run.recording.metrics import Panel, panels
from redqueen.run.recording.metrics.panel import Line, column, contested_share, named

# The four charts that the overview opens with: better than the start, healthy, who wins, how hard.

Scores = Mapping[str, Mapping[str, Any]]
"""The held-out scores of a step, by student."""
MANY = 6
"""With more students than this the chart of held-out gains shows the living ones, and of more of them the best."""


def first_charts(lines: Sequence[Line]) -> list[dict[str, object]]:
    """Returns the charts, as `static/charts.js` draws them; one without a value is left out."""
    charts = [_gain(lines), _health(lines), _winners(lines), _solved(lines)]
    return [drawn for drawn in charts if drawn["curves"]]


def _gain(lines: Sequence[Line]) -> dict[str, Any]:
    """Returns how far each student is above the start on held-out problems, in points, with its interval."""
    measured = [line for line in lines if line.get("held_out")]
    if not measured:
        return _chart([], "gain", "", "", "", [])
    students: list[Scores] = [line["held_out"]["students"] for line in measured]
    first: Mapping[str, Any] = lines[0].get("members") or {}
    # Its axis ends where those of the other charts do.
    newest: int = lines[-1]["step"]
    beyond = [None] if newest > measured[-1]["step"] else []

    def course(name: str, key: str) -> list[float | None]:
        # What all started from is the start, by definition.
        start = 0.0 if first.get(name, {}).get("born") == 0 else None
        values = [(scores.get(name) or {}).get(key) for scores in students]
        return [start, *(None if value is None else 100 * value for value in values), *beyond]

    ever = named([line["held_out"] for line in measured], "students")
    shown = _shown(ever, lines[-1].get("members") or {}, students[-1])
    curves: list[dict[str, Any]] = [
        {"label": name, "values": course(name, "gain"), "low": course(name, "low"), "high": course(name, "high")}
        for name in shown
    ]
    if len(shown) < len(ever):
        means = [mean_gain(scores) for scores in students]
        curves.insert(0, {"label": "mean of the students", "values": [0.0, *means, *beyond]})
    note = (
        "Right answers on held-out problems, which nobody is trained or selected by: percentage points from the start, "
        "with 95 % intervals over problems. A student is better if its band is above 0."
    )
    gained = _chart(measured, "gain", "Better than the start?", "points", note, curves)
    steps = [0, *gained["steps"], *([newest] if beyond else [])]
    return {**gained, "steps": steps, "plain": True, "zero": True}


def _shown(ever: Sequence[str], living: Mapping[str, Any], last: Scores) -> list[str]:
    """Returns the students that have a curve: who was replaced is less to a reader than who lives."""
    shown = list(ever)
    if len(shown) > MANY:
        shown = [name for name in ever if name in living]
    if len(shown) > MANY:
        shown = sorted((name for name in shown if name in last), key=lambda name: -last[name]["gain"])[:MANY]
    return shown


def _health(lines: Sequence[Line]) -> dict[str, Any]:
    curves = [
        {"label": "valid proposals", "values": [line.get("valid_rate") for line in lines]},
        {"label": "contested tasks", "values": [contested_share(line) for line in lines]},
    ]
    note = "Only tasks that a student solves sometimes, but not always, teach it something. In sample."
    return _chart(lines, "health", "Healthy? Valid and contested", "share", note, curves)


def _winners(lines: Sequence[Line]) -> dict[str, Any]:
    # A step of one match has one game, whose winner alone is no curve.
    games: list[Mapping[str, int]] = [line.get("outcomes") or {} for line in lines]

    def shares(side: str) -> list[float | None]:
        points: list[float | None] = []
        for index in range(len(games)):
            some = games[max(0, index + 1 - RECENT) : index + 1]
            played = sum(sum(outcomes.values()) for outcomes in some)
            points.append(sum(outcomes.get(side, 0) for outcomes in some) / played if played else None)
        return points

    curves = [
        {"label": "students", "values": shares("student")},
        {"label": "teachers", "values": shares("teacher")},
        {"label": "drawn", "values": shares("draw")},
    ]
    note = (
        f"Shares of the rated games of {RECENT} steps, up to each step. A student wins if it solves more than par, the "
        "running solve rate."
    )
    return {**_chart(lines, "winners", "Who wins?", "share", note, curves), "plain": True}


def _solved(lines: Sequence[Line]) -> dict[str, Any]:
    kinds = named(lines, "solve_rate_by_kind")
    curves = [{"label": kind, "values": column(lines, "solve_rate_by_kind", kind)} for kind in kinds]
    note = "Right answers by kind of task, in sample: it rises if students learn, and if teachers write easier tasks."
    return _chart(lines, "solved", "How much do students solve?", "share", note, curves)


def _chart(
    lines: Sequence[Line], key: str, title: str, unit: str, note: str, curves: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Returns a chart, as `static/charts.js` draws it; a curve without any value is left out."""
    return {
        "key": f"first-{key}",
        "section": "first",
        "title": title,
        "unit": unit,
        "note": note,
        "low": 0 if unit == "share" else None,
        "high": 1 if unit == "share" else None,
        "steps": [line["step"] for line in lines],
        "curves": [curve for curve in curves if set(curve["values"]) - {None}],
    }


Drawn = dict[str, Any]
"""A panel as `static/charts.js` draws it."""


def overview(run: LiveRun) -> dict[str, object]:
    """Returns the first answers, the verdict so far, and all panels. Raises RunError if the run cannot be read."""
    lines = run.lines()
    verdict = run.verdict()
    drawn = with_bands([panel_json(panel) for panel in panels(lines, run.directory.own_metrics())])
    asked = [{**panel, "question": question_of(panel["key"], panel["section"])} for panel in drawn]
    return {
        "verdict": {"word": verdict.word, "reason": verdict.reason},
        "better": better(lines, run.config().evals.every),
        "health": health(lines),
        "first": first_charts(lines),
        "kinds": by_kind(lines),
        "panels": sorted(asked, key=lambda panel: QUESTIONS.index(panel["question"])),
    }


def panel_json(panel: Panel) -> Drawn:
    """Returns a panel as `static/charts.js` draws it."""
    # Not `asdict`, which copies each of a long run's points.
    data: Drawn = {field.name: getattr(panel, field.name) for field in fields(panel)}
    data["curves"] = [{"label": label, "values": values} for label, values in panel.curves.items()]
    return data


def with_bands(drawn: list[Drawn]) -> list[Drawn]:
    """Returns the panels with each rating as a band, mu with a sigma on both sides, instead of two charts."""
    by_key = {panel["key"]: panel for panel in drawn}
    shown: list[Drawn] = []
    for panel in drawn:
        key: str = panel["key"]
        sigmas = by_key.get(f"sigma-{key.removeprefix('ratings-')}")
        if key.startswith("ratings-") and sigmas is not None:
            shown.append(_rating_band(panel, sigmas))
        elif not key.startswith("sigma-"):
            shown.append(panel)
    return shown


def _rating_band(ratings: Drawn, sigmas: Drawn) -> Drawn:
    deviations = {curve["label"]: curve["values"] for curve in sigmas["curves"]}
    curves: list[Drawn] = []
    for curve in ratings["curves"]:
        pairs = list(zip(curve["values"], deviations[curve["label"]], strict=True))
        low = [None if mu is None or sigma is None else mu - sigma for mu, sigma in pairs]
        high = [None if mu is None or sigma is None else mu + sigma for mu, sigma in pairs]
        curves.append({**curve, "low": low, "high": high})
    return {**ratings, "note": f"{ratings['note']} The band is one sigma on both sides.", "curves": curves}


def by_kind(lines: Sequence[Line]) -> dict[str, object]:
    """Returns a row for each kind of task, and the steps that they are over."""
    quarter = lines[-max(1, len(lines) // 4) :] if lines else []
    kinds = named(quarter, "valid_rate_by_kind")
    return {
        "first": quarter[0]["step"] if quarter else 0,
        "last": quarter[-1]["step"] if quarter else 0,
        "rows": [_kind(quarter, kind) for kind in kinds],
    }


def _kind(lines: Sequence[Line], kind: str) -> dict[str, object]:
    tasks = [count or 0 for count in column(lines, "tasks_by_kind", kind)]
    contested = [count or 0 for count in column(lines, "contested_by_kind", kind)]
    rates = [rate or 0 for rate in column(lines, "solve_rate_by_kind", kind)]
    solved = sum(count * rate for count, rate in zip(tasks, rates, strict=True))
    played = sum(tasks)
    return {
        "kind": kind,
        "tasks": played,
        "valid": mean(column(lines, "valid_rate_by_kind", kind)),
        "solved": solved / played if played else None,
        "contested": sum(contested) / played if played else None,
        "novel": mean(column(lines, "novel_rate_by_kind", kind)),
        "nodes": mean(column(lines, "complexity_by_kind", kind, "reached", "nodes")),
    }
