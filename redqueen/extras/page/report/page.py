"""`redqueen report`: the live page's charts and tables in one file."""

from __future__ import annotations

from html import escape

from redqueen.analysis.verdict import HEAD, RunVerdict, oscillation_words, trend_rows
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.report.content import check, facts, views
from redqueen.extras.page.report.inline import document, table
from redqueen.extras.page.views import matrix

_CAUTION = (
    "The curves are in sample: measured on the tasks that the members train on. Ratings and fitness are relative to "
    "the opponents of the day: if both sides improve alike, they stand still. What the students can do on programs "
    "that nobody trained on is what <code>redqueen eval RUN</code> measures."
)


def page(run: LiveRun) -> str:
    """Returns the page. Raises RunError if there is no such run or it has played no step."""
    check(run)
    title = run.directory.path.resolve().name
    verdict = run.verdict()
    data = {**views(run), "matrix": matrix(run)}
    return document(f"{title} · Red Queen", _body(title, facts(run), verdict), data, "report.js")


def verdict_section(verdict: RunVerdict) -> str:
    """Returns the verdict, the numbers that it rests on and what it leaves open."""
    rows = trend_rows(verdict)
    numbers = table(HEAD, rows) if rows else ""
    return (
        f'<section id="verdict"><h2>Verdict: {escape(verdict.word)}</h2><p>{escape(verdict.reason)} '
        f"{escape(oscillation_words(verdict.oscillation))}</p>{numbers}</section>"
    )


def _body(title: str, known: dict[str, str], verdict: RunVerdict) -> str:
    costs = " · ".join(f"{escape(name)} {escape(value)}" for name, value in known.items())
    names = ("evaluation", "overview", "league", "matrix", "tree", "tasks")
    sections = "".join(f'<section id="{name}"></section>' for name in names)
    return (
        f'<header><div class="top"><strong id="title">{escape(title)}</strong>'
        f'<button id="theme" type="button"></button></div><div id="facts">{costs}</div></header>'
        f'<main class="report">{verdict_section(verdict)}<p class="soft">{_CAUTION}</p>{sections}</main>'
        "<noscript><p>The charts and tables are drawn with JavaScript from this file alone. "
        "<code>redqueen report RUN --markdown</code> needs none.</p></noscript>"
    )
