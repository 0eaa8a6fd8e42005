"""The overview: what a reader asks first, as numbers and four charts, and all other charts by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from redqueen.analysis.compare.arms import mean_gain
from redqueen.base.intervals import mean
from redqueen.extras.page.headline import FEW_CONTESTED, FEW_VALID, RECENT, better, health, trained, winners
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.members import some_of
from redqueen.extras.page.tasks import example
from redqueen.run.recording.metrics import Panel, panels
from redqueen.run.recording.metrics.metric import Line, column, contested_share, named

_QUESTIONS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "Do students learn?",
        (
            "held-out-own",
            "held-out-students",
            "held-out-by-kind",
            "held-out",
            "solve-rate",
            "solve-rate-own",
            "solve-rate-by-kind",
            "rewards",
            "verdicts",
        ),
        (),
    ),
    ("Are the tasks valid, and worth solving?", ("valid-rate", "rejections", "contested", "guessable"), ("dynamics",)),
    ("Are the tasks hard and long?", (), ("complexity",)),
    ("Are the tasks new?", ("new-ideas", "new-shapes", "new-paths", "seed-references", "task-bank"), ()),
    ("How much have the tasks covered?", (), ("coverage",)),
    ("Who wins?", ("outcomes",), ("league",)),
    ("What does it cost?", ("tokens", "tokens-by-phase", "seconds"), ()),
    ("How does the training go?", (), ("training",)),
)
"""Each question, the charts that answer it, and the sections whose other charts do. The order is that of the page."""
QUESTIONS = (*(question for question, _, _ in _QUESTIONS), "Other charts")
_OF_TEACHERS = QUESTIONS[2:6]
"""What is asked of tasks that teachers write, and of games. Students alone have neither."""


def question_of(key: str, section: str) -> str:
    """Returns the question of a panel: the one that names it, else that of its section."""
    named = (question for question, keys, _ in _QUESTIONS if key in keys)
    of_section = (question for question, _, sections in _QUESTIONS if section in sections)
    return next(named, None) or next(of_section, QUESTIONS[-1])


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
    students: list[Scores] = [trained(line)[0] for line in measured]
    first: Mapping[str, Any] = lines[0].get("members") or {}
    # Its axis ends where those of the other charts do.
    newest: int = lines[-1]["step"]
    beyond = [None] if newest > measured[-1]["step"] else []

    def course(name: str, key: str) -> list[float | None]:
        # What all started from is the start, by definition.
        start = 0.0 if first.get(name, {}).get("born") == 0 else None
        values = [(scores.get(name) or {}).get(key) for scores in students]
        return [start, *(None if value is None else 100 * value for value in values), *beyond]

    ever = named([{"students": scores} for scores in students], "students")
    shown = _shown(ever, lines[-1].get("members") or {}, students[-1])
    curves: list[dict[str, Any]] = [
        {"label": name, "values": course(name, "gain"), "low": course(name, "low"), "high": course(name, "high")}
        for name in shown
    ]
    if len(shown) < len(ever):
        means = [mean_gain(scores) for scores in students]
        curves.insert(0, {"label": "mean of the students", "values": [0.0, *means, *beyond]})
    note = (
        "Right answers on held-out problems, on which no member is trained or selected: percentage points from the "
        "start, with 95 % intervals over problems. A student is better if its band is above 0."
    )
    # A line that stays at 0, without an interval, is an empty chart to a reader.
    curves = [curve for curve in curves if any(map(any, (curve.get(key, ()) for key in ("values", "low", "high"))))]
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
    limits = (FEW_VALID, FEW_CONTESTED)
    known = [(curve, limit) for curve, limit in zip(curves, limits, strict=True) if _values(curve)]
    words = " and ".join(f"{limit:.0%} {curve['label']}" for curve, limit in known)
    note = (
        "Only tasks that a student solves sometimes, but not always, teach it something. In sample. "
        f"Healthy from {words} on: the dotted lines."
    )
    titles = " and ".join(str(curve["label"]).split()[0] for curve, _ in known)
    chart = _chart(lines, "health", f"Healthy? {titles.capitalize()}", "share", note, curves)
    return {**chart, "limits": [limit for _, limit in known]}


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
    proposed = any(line.get("valid_rate") is not None for line in lines)
    note = "Right answers by kind of task, in sample."
    if proposed:
        note = (
            "Right answers by kind of task, in sample: it rises if students learn, and if teachers write easier tasks."
        )
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
        "curves": [curve for curve in curves if _values(curve)],
    }


def _values(curve: Mapping[str, Any]) -> bool:
    """Returns whether a curve has a value."""
    return bool(set(curve["values"]) - {None})


def panels_of(run: LiveRun) -> list[Panel]:
    """Returns the panels that can have content in this run."""
    drawn = panels(run.lines(), run.directory.own_metrics())
    if run.config().population.teachers:
        return drawn
    return [panel for panel in drawn if question_of(panel.key, panel.section) not in _OF_TEACHERS]


Drawn = dict[str, Any]
"""A panel as `static/charts.js` draws it."""


def overview(run: LiveRun) -> dict[str, object]:
    """Returns the first answers, the verdict so far, and all panels. Raises RunError if the run cannot be read."""
    lines = run.lines()
    config = run.config()
    verdict = run.verdict()
    drawn = with_bands([panel_json(panel) for panel in panels_of(run)])
    drawn = [_from_start(panel, lines) for panel in drawn]
    asked = [{**panel, "question": question_of(panel["key"], panel["section"])} for panel in drawn]
    return {
        "verdict": None if verdict.too_short else some_of(verdict, "title", "word", "reason"),
        "better": better(lines, config.evals.every, config.run.steps),
        "health": health(lines),
        "winners": winners(lines),
        "example": example(run) if lines else None,
        "first": first_charts(lines),
        "kinds": by_kind(lines),
        "panels": sorted(asked, key=lambda panel: QUESTIONS.index(panel["question"])),
    }


def panel_json(panel: Panel) -> Drawn:
    """Returns a panel as `static/charts.js` draws it."""
    # Not `asdict`, which copies each of a long run's points.
    data: Drawn = {field.name: getattr(panel, field.name) for field in fields(panel)}
    data["curves"] = [{"label": label, "values": values} for label, values in panel.curves.items()]
    data["plain"] = of_held_out(panel)
    return data


def of_held_out(panel: Panel) -> bool:
    """Returns whether a panel shows held-out scores, which are few and each one measured: they are never smoothed."""
    return panel.key.startswith("held-out")


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


def _from_start(panel: Drawn, lines: Sequence[Line]) -> Drawn:
    """Returns the panel of held-out problems with what the start solved drawn at step 0, where it was measured."""
    if panel["key"] != "held-out-students" or not panel["curves"]:
        return panel
    first = lines[0].get("members") or {}
    start = panel["curves"][0]["values"][0]
    began = {panel["curves"][0]["label"], *(name for name, member in first.items() if member.get("born") == 0)}
    curves = [
        {**curve, "values": [start if curve["label"] in began else None, *curve["values"]]} for curve in panel["curves"]
    ]
    return {**panel, "steps": [0, *panel["steps"]], "curves": curves}


def _rating_band(ratings: Drawn, sigmas: Drawn) -> Drawn:
    deviations = {curve["label"]: curve["values"] for curve in sigmas["curves"]}
    curves: list[Drawn] = []
    for curve in ratings["curves"]:
        pairs = list(zip(curve["values"], deviations[curve["label"]], strict=True))
        low = [None if mu is None or sigma is None else mu - sigma for mu, sigma in pairs]
        high = [None if mu is None or sigma is None else mu + sigma for mu, sigma in pairs]
        curves.append({**curve, "low": low, "high": high})
    return {**ratings, "note": f"{ratings['note']} The band is one sigma on both sides.", "curves": curves}


FEW_TASKS = 30
"""Among kinds with fewer tasks than this in the last quarter none is said to be the best."""


def by_kind(lines: Sequence[Line]) -> dict[str, object]:
    """Returns a row for each kind of task, the best one if that can be said, and the steps that they are over."""
    quarter = lines[-max(1, len(lines) // 4) :] if lines else []
    rows = [_kind(quarter, kind) for kind in named(quarter, "valid_rate_by_kind")]
    judged = [row for row in rows if row["tasks"] >= FEW_TASKS]
    best = max(judged, key=lambda row: row["contested"]) if len(judged) > 1 else None
    return {
        "first": quarter[0]["step"] if quarter else 0,
        "last": quarter[-1]["step"] if quarter else 0,
        "rows": rows,
        "best": best["kind"] if best and best["contested"] else None,
    }


def _kind(lines: Sequence[Line], kind: str) -> dict[str, Any]:
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
