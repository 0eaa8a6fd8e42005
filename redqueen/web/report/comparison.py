"""`redqueen compare`: runs and arms on one page, with the live page's charts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from redqueen.analysis.compare.arms import Arm, runs_of
from redqueen.analysis.compare.charts import Chart, answering
from redqueen.analysis.compare.gains import KEY
from redqueen.analysis.compare.summary import Budget, Quantity, budget, quantity_rows, run_row
from redqueen.web.questions import question_of
from redqueen.web.report.inline import document


def comparison_page(arms: Sequence[Arm], charts: Sequence[Chart], table: Sequence[Quantity]) -> str:
    """Returns the page."""
    answers = answering(charts)
    first = [chart for _, shown in answers for chart in shown]
    others = [chart for chart in charts if chart not in first]
    data = {
        "overview": [chart_panel(chart, question.title) for question, shown in answers for chart in shown],
        "others": [folded_panel(chart) for chart in others],
    }
    return document("Comparison · Red Queen", _body(arms, table), data, "compare.js")


def folded_panel(chart: Chart) -> dict[str, object]:
    """Returns a chart as `static/views/folded_charts.js` draws it."""
    question = question_of(chart.panel.key, chart.panel.section)
    return {**chart_panel(chart, chart.panel.section), "question": question}


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


def _body(arms: Sequence[Arm], table: Sequence[Quantity]) -> str:
    rows = [_budget_row(budget(arm)) for arm in arms]
    budgets = _table(["arm", "runs", "verdict", "steps", "tokens sampled", "tokens trained", "time in steps"], rows)
    changes = quantity_rows(table, len(arms), "→", "–")
    numbers = _table(["first → last quarter of the steps", *(arm.name for arm in arms)], changes)
    fields = [run_row(run) for run in runs_of(arms)]
    runs = _table(list(fields[0]), [list(map(str, row.values())) for row in fields])
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


def _budget_row(cost: Budget) -> list[str]:
    return [
        cost.arm,
        str(cost.runs),
        ", ".join(f"{word} ({count})" for word, count in cost.verdicts.items()),
        f"{cost.steps:g}",
        f"{cost.tokens_sampled:,.0f}",
        f"{cost.tokens_trained:,.0f}",
        f"{cost.seconds / 60:.1f} min",
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join(_row(row) for row in rows)
    box = f'<div class="wide" tabindex="0" role="group" aria-label="{escape(head[0])}">'
    return f"{box}<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>"


def _row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
