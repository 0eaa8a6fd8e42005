"""Runs beside one another, on the live page and in the file that `redqueen compare --out` writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from operator import attrgetter
from typing import Any

from redqueen.analysis.compare import BUDGET_HEAD, Quantity, budget, budget_rows, quantity_rows, run_row
from redqueen.analysis.compare.arms import KEY, Arm, Chart, ComparedRun, answering, charts, gain_charts, runs_of
from redqueen.config import Config
from redqueen.config.keys import as_text, keys
from redqueen.errors import UserError
from redqueen.extras.page.headline import better, health
from redqueen.extras.page.inline import document, table
from redqueen.extras.page.live_run import Folder, LiveRun
from redqueen.extras.page.overview import QUESTIONS, of_held_out, question_of
from redqueen.run.recording.metrics import panels
from redqueen.store.files import damage_of

MOST = 6
"""So many runs can be told apart in a chart."""
_OF_STUDENTS = "held-out-students"
"""Students of two runs have nothing in common but their names."""


def comparison(folder: Folder, names: Sequence[str]) -> dict[str, object]:
    """Returns what is compared of the runs of these names, and which runs there are to choose from.

    Raises UserError for more than `MOST` runs, UnknownError for a name that is no run.
    """
    chosen = list(dict.fromkeys(names))
    if len(chosen) > MOST:
        raise UserError(f"at most {MOST} runs can be compared on this page: `redqueen compare` takes more")
    choice = {"names": folder.names(), "chosen": chosen, "most": MOST}
    if len(chosen) < 2:
        return {**choice, "runs": [], "differ": [], "first": [], "panels": []}
    runs = {name: folder.run(name) for name in chosen}
    arms = [_arm(folder.title(name), run) for name, run in runs.items()]
    begun = [arm for arm in arms if arm.runs[0].lines]
    shown = [chart for chart in charts(begun) if chart.curves]
    answers = answering([*gain_charts(begun), *shown])
    titles = [arm.name for arm in arms]
    first = [chart_panel(chart, question.title, titles) for question, drawn in answers for chart in drawn]
    keys_shown = {panel["key"] for panel in first}
    return {
        **choice,
        "runs": [_row(arm, run) for arm, run in zip(arms, runs.values(), strict=True)],
        "differ": _differ([arm.runs[0].config for arm in arms]),
        "first": first,
        "panels": folded_panels(
            (chart for chart in shown if chart.key not in keys_shown and chart.panel.key != _OF_STUDENTS), titles
        ),
    }


def _arm(name: str, run: LiveRun) -> Arm:
    # Here, so that it is said which of the runs is damaged.
    with damage_of(run.directory.path):
        lines = run.lines()
        compared = ComparedRun(
            name=name,
            path=run.directory.path,
            arm=name,
            config=run.config(),
            lines=lines,
            verdict=run.verdict(),
            panels=panels(lines, run.directory.own_metrics()),
        )
    return Arm(name=name, runs=(compared,))


def _row(arm: Arm, run: LiveRun) -> dict[str, object]:
    with damage_of(run.directory.path):
        lines = run.lines()
        config = run.config()
        spent = budget(arm) if lines else None
        return {
            "title": arm.name,
            "verdict": "too short to say" if arm.runs[0].verdict.too_short else arm.runs[0].verdict.word,
            "better": better(lines, config.evals.every, config.run.steps),
            "health": health(lines),
            "steps": lines[-1]["step"] if lines else 0,
            "tokens": spent.tokens_sampled + spent.tokens_trained if spent else 0,
            "seconds": spent.seconds if spent else 0,
        }


def _differ(configs: Sequence[Config]) -> list[dict[str, Any]]:
    """Returns the settings that are not the same in all runs."""
    rows: list[dict[str, Any]] = []
    for key in ("recipe", *keys(Config)):
        values = [as_text(attrgetter(key)(config)) for config in configs]
        if len(set(values)) > 1:
            rows.append({"key": key, "values": values})
    return rows


# The file, with one curve an arm.


def comparison_page(arms: Sequence[Arm], charts: Sequence[Chart], quantities: Sequence[Quantity]) -> str:
    """Returns the page."""
    answers = answering(charts)
    first = [chart for _, shown in answers for chart in shown]
    names = [arm.name for arm in arms]
    data = {
        "overview": [chart_panel(chart, question.title, names) for question, shown in answers for chart in shown],
        "others": folded_panels((chart for chart in charts if chart not in first), names),
    }
    return document("Comparison · Red Queen", _body(arms, quantities), data, "compare.js")


def folded_panels(charts: Iterable[Chart], arms: Sequence[str]) -> list[dict[str, object]]:
    """Returns charts as `static/views/folded_charts.js` draws them: with their questions, in the order of these."""
    asked = [(question_of(chart.panel.key, chart.panel.section), chart) for chart in charts]
    asked.sort(key=lambda pair: QUESTIONS.index(pair[0]))
    return [{**chart_panel(chart, chart.panel.section, arms), "question": question} for question, chart in asked]


def chart_panel(chart: Chart, section: str, arms: Sequence[str]) -> dict[str, object]:
    """Returns a chart as `static/charts.js` draws it. An arm has one colour, also where others have no curve."""
    panel = chart.panel
    held_out = of_held_out(panel)
    curves: list[dict[str, object]] = []
    for curve in chart.curves:
        points = curve.points
        drawn: dict[str, object] = {
            "label": curve.arm,
            "hue": arms.index(curve.arm),
            "values": [point and point.mean for point in points],
        }
        if any(point is not None and point.low is not None for point in points):
            drawn["low"] = [point and point.low for point in points]
            drawn["high"] = [point and point.high for point in points]
        curves.append(drawn)
    return {
        "key": chart.key,
        "section": section,
        "title": chart.title,
        "unit": panel.unit,
        "note": panel.note,
        "low": panel.low,
        "high": panel.high,
        "steps": chart.steps,
        "curves": curves,
        "along": chart.along,
        # Each run measured held-out problems at its own steps.
        "joined": held_out,
        "plain": held_out,
        # A gain has no limits but a zero.
        "zero": panel.key == KEY,
    }


def _body(arms: Sequence[Arm], quantities: Sequence[Quantity]) -> str:
    budgets = table(BUDGET_HEAD, budget_rows([budget(arm) for arm in arms]))
    changes = quantity_rows(quantities, len(arms), "→", "–")
    numbers = table(["first → last quarter of the steps", *(arm.name for arm in arms)], changes)
    fields = [run_row(run) for run in runs_of(arms)]
    runs = table(list(fields[0]), [list(map(str, row.values())) for row in fields])
    return (
        '<header><div class="top"><strong id="title">Comparison</strong>'
        '<button id="theme" type="button"></button></div>'
        f'<div id="facts">{escape(" · ".join(arm.name for arm in arms))}</div></header>'
        f'<main class="report"><section id="overview"></section><h2>Budgets and verdicts</h2>{budgets}'
        f"<h2>Numbers</h2>{numbers}"
        '<p class="soft">Means over the runs of an arm, with 95 % intervals over runs from two runs on. Rates are in '
        "sample: measured on the tasks that the members train on.</p>"
        '<section id="others"></section>'
        f"<h2>Runs</h2>{runs}</main>"
    )
