"""The overview: what a reader asks first, as numbers and four charts, and all other charts by question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from redqueen.base.intervals import mean
from redqueen.extras.page.first_charts import first_charts
from redqueen.extras.page.headline import better, health
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.questions import QUESTIONS, question_of
from redqueen.run.recording.metrics import Panel, panels
from redqueen.run.recording.metrics.panel import Line, column, named

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
