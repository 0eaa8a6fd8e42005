"""`redqueen compare`: runs and arms on one page, with the live page's charts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from redqueen.analysis.compare.arms import Arm, runs_of
from redqueen.analysis.compare.charts import KEY, Chart, answering
from redqueen.analysis.compare.summary import BUDGET_HEAD, Quantity, budget, budget_rows, quantity_rows, run_row
from redqueen.extras.page.questions import QUESTIONS, question_of
from redqueen.extras.page.report.inline import document, table


def comparison_page(arms: Sequence[Arm], charts: Sequence[Chart], quantities: Sequence[Quantity]) -> str:
    """Returns the page."""
    answers = answering(charts)
    first = [chart for _, shown in answers for chart in shown]
    data = {
        "overview": [chart_panel(chart, question.title) for question, shown in answers for chart in shown],
        "others": folded_panels(chart for chart in charts if chart not in first),
    }
    return document("Comparison · Red Queen", _body(arms, quantities), data, "compare.js")


def folded_panels(charts: Iterable[Chart]) -> list[dict[str, object]]:
    """Returns charts as `static/views/folded_charts.js` draws them: with their questions, in the order of these."""
    asked = [(question_of(chart.panel.key, chart.panel.section), chart) for chart in charts]
    asked.sort(key=lambda pair: QUESTIONS.index(pair[0]))
    return [{**chart_panel(chart, chart.panel.section), "question": question} for question, chart in asked]


def chart_panel(chart: Chart, section: str) -> dict[str, object]:
    """Returns a chart as `static/charts.js` draws it."""
    panel = chart.panel
    curves: list[dict[str, object]] = []
    for curve in chart.curves:
        points = curve.points
        drawn: dict[str, object] = {"label": curve.arm, "values": [point and point.mean for point in points]}
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
        "joined": panel.key.startswith("held-out"),
        # A gain has no limits but a zero, and few steps, which need no smoothing.
        "plain": panel.key == KEY,
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
