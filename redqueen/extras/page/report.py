"""`redqueen report`: a run as one file of HTML with the live page's views, or as Markdown for a model card."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any, cast

from redqueen.analysis.verdict import HEAD, RunVerdict, oscillation_words, trend_rows
from redqueen.base.intervals import mean
from redqueen.cli.pushing import hub, push
from redqueen.errors import UserError
from redqueen.extras.page.headline import better
from redqueen.extras.page.inline import document, table
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.members import league, tree
from redqueen.extras.page.overview import overview, panels_of
from redqueen.extras.page.state import state, views_of
from redqueen.extras.page.tasks import task_view
from redqueen.extras.page.views import evaluation, matrix
from redqueen.run.recording.metrics import Panel
from redqueen.run.recording.plain_console import PlainConsole
from redqueen.store.archive import queries
from redqueen.store.archive.queries import TaskQuery
from redqueen.store.directory import RunError, write_text
from redqueen.store.files import damage_of, printable
from redqueen.store.metrics import StepMetrics

SHOWN = 4
"""How many best tasks are shown, and how many typical ones."""


def check(run: LiveRun) -> Sequence[StepMetrics]:
    """Returns the lines of a run. Raises RunError if there is no such run or it has played no step."""
    run.config()
    lines = run.lines()
    if not lines:
        raise RunError(f"{run.directory.path} has played no step yet: nothing to report")
    return lines


def facts(run: LiveRun) -> dict[str, str]:
    """Returns what was run and what it cost, by name."""
    now = state(run, "")
    lines = run.lines()
    seconds = sum(line["seconds"]["total"] for line in lines)
    return {
        "recipe": str(now["recipe"]),
        "base": str(now["base"]),
        "members": str(now["members"]),
        "seed": str(now["seed"]),
        "steps": f"{now['step']} of {now['steps']}",
        "time in steps": f"{seconds / 60:.1f} minutes",
        "tokens sampled": f"{sum(line['tokens_sampled'] for line in lines):,}",
        "tokens trained": f"{sum(line['tokens_trained'] for line in lines):,}",
        "isolation": str(now["isolation"]),
    }


def views(run: LiveRun) -> dict[str, object]:
    """Returns the data of the page's views that can have content, as the live page's scripts take them."""
    config = run.config()
    made = {"league": league, "matrix": matrix, "tree": tree}
    having = views_of(config.population, config.evolution)
    drawn = {name: view(run) for name, view in made.items() if name in having}
    now = state(run, "")
    return {
        "overview": overview(run),
        "state": {"course": now["course"], "next": now["next"], "reason": now["reason"]},
        "evaluation": evaluation(run),
        **drawn,
        "tasks": tasks(run),
    }


def tasks(run: LiveRun) -> dict[str, list[dict[str, Any]]]:
    """Returns tasks as `redqueen.extras.page.tasks.task_view` gives them.

    The `best` are those that paid their teachers most, the newest first, and none where no teacher is paid; the
    `typical` are drawn at random from the last quarter of the steps, always the same ones.
    """
    last = run.lines()[-1]["step"]
    late = TaskQuery(first=last - last // 4 + 1) if last >= 4 else TaskQuery()
    with run.archive() as archive:
        # The highest reward belongs to a task that is solved seldom, but solved.
        best = queries.find(archive, TaskQuery(), "reward", descending=True, limit=SHOWN, offset=0)
        count = queries.count(archive, late)
        offsets = sorted(random.Random(0).sample(range(count), min(SHOWN, count)))
        typical = [queries.find(archive, late, "step", descending=False, limit=1, offset=offset) for offset in offsets]
    return {
        "best": [task_view(run, line.id) for line in best if line.reward is not None],
        "typical": [task_view(run, line.id) for line in chain.from_iterable(typical)],
    }


# The page.

_CAUTION = (
    "The curves are in sample: measured on the tasks that the members train on. Ratings and fitness are relative to "
    "the opponents that were met: if both sides improve alike, they stand still. What the students can do on programs "
    "that no member was trained on is what <code>redqueen eval RUN</code> measures."
)


def page(run: LiveRun) -> str:
    """Returns the page. Raises RunError if there is no such run or it has played no step."""
    check(run)
    title = run.directory.path.resolve().name
    data = views(run)
    sections = [
        verdict_section(run.verdict()) if name == "verdict" else f'<section id="{name}"></section>'
        for name in ("overview", "verdict", "evaluation", "league", "matrix", "tree", "tasks")
        if name in data or name == "verdict"
    ]
    return document(f"{title} · Red Queen", _body(title, facts(run), sections), data, "report.js")


def verdict_section(verdict: RunVerdict) -> str:
    """Returns the verdict, the numbers that it rests on and what it leaves open; "" for a run that is too short."""
    if verdict.too_short:
        return ""
    rows = trend_rows(verdict)
    numbers = table(HEAD, rows) if rows else ""
    return (
        f'<section id="verdict"><h1>{verdict.title}: {escape(verdict.word)}</h1><p>{escape(verdict.reason)} '
        f"{escape(oscillation_words(verdict.oscillation))}</p>{numbers}</section>"
    )


def _body(title: str, known: Mapping[str, str], sections: Sequence[str]) -> str:
    costs = " · ".join(f"{escape(name)} {escape(value)}" for name, value in known.items())
    return (
        f'<header><div class="top"><strong id="title">{escape(title)}</strong>'
        f'<button id="theme" type="button"></button></div><div id="facts">{costs}</div></header>'
        f'<main class="report">{"".join(sections)}<p class="soft">{_CAUTION}</p></main>'
        "<noscript><p>The charts and tables are drawn with JavaScript from this file alone. "
        "<code>redqueen report RUN --markdown</code> needs none.</p></noscript>"
    )


# The numbers as Markdown.

_OF_RUN = ("mean", "best", "worst")
"""Columns whose titles do not name their run."""
_LEFT_OUT = ("ratings-", "sigma-")
"""Panels with a curve a member: the league table says the same."""


def markdown(run: LiveRun) -> str:
    """Returns the report as Markdown. Raises RunError if there is no such run or it has played no step."""
    lines = check(run)
    config = run.config()
    verdict = run.verdict()
    answer = better(lines, config.evals.every, config.run.steps)
    blocks = [
        f"# {run.directory.path.resolve().name}",
        "\n".join(f"- {name}: {value}" for name, value in facts(run).items()),
        f"## Better than the start: {answer['value']}",
        answer["text"],
    ]
    if not verdict.too_short:
        blocks += [
            f"## {verdict.title}: {verdict.word}",
            f"{verdict.reason} {oscillation_words(verdict.oscillation)}",
        ]
    if rows := trend_rows(verdict):
        blocks.append(_table(HEAD, rows))
    blocks += _evaluation(evaluation(run)["evaluation"])
    shown = [panel for panel in panels_of(run) if not panel.key.startswith(_LEFT_OUT)]
    blocks += [
        "## Course",
        "Means over the first and the last quarter of the steps. Rates are in sample: measured on the tasks that the "
        "members train on.",
        _table(["", "unit", "first quarter", "last quarter"], [row for panel in shown for row in _panel_rows(panel)]),
    ]
    if "league" in views_of(config.population, config.evolution):
        blocks += ["## League", _league(league(run))]
    blocks += _tasks(tasks(run))
    return "\n\n".join(blocks) + "\n"


def _evaluation(found: Any) -> list[str]:
    """Returns the paper's table, nothing if the run was not evaluated."""
    if found is None:
        return []
    head = [
        f"{column['title']} of {column['target']}" if column["kind"] in _OF_RUN else column["title"]
        for column in found["columns"]
    ]
    rows = [[row["title"], *map(_score, row["cells"])] for row in found["rows"]]
    notes = "\n".join(f"- {note}" for note in [*found["sentences"], *found["notes"]])
    return ["## Held-out evaluation", _table(["%", *head], rows), notes]


def _score(cell: Mapping[str, float | None] | None) -> str:
    if cell is None or cell["mean"] is None:
        return "-"
    mean = f"{100 * cell['mean']:.1f}"
    if cell["low"] is None or cell["high"] is None:
        return mean
    return f"{mean} [{100 * cell['low']:.0f}, {100 * cell['high']:.0f}]"


def _panel_rows(panel: Panel) -> list[list[str]]:
    quarter = max(1, len(panel.steps) // 4)
    rows: list[list[str]] = []
    for label, values in panel.curves.items():
        first = _mean(values[:quarter], panel.unit)
        last = _mean(values[-quarter:], panel.unit)
        rows.append([f"{panel.title}: {label}", panel.unit, first, last])
    return rows


def _mean(values: Sequence[float | None], unit: str) -> str:
    average = mean(values)
    if average is None:
        return "-"
    return f"{average:.3f}" if unit == "share" or abs(average) < 10 else f"{average:,.0f}"


def _league(data: Mapping[str, object]) -> str:
    """Returns the living members, the fittest of each role on top."""
    members = cast(Sequence[Mapping[str, Any]], data["members"])
    living = [member for member in members if member["died"] is None]
    rows: list[list[str]] = []
    for member in living:
        rating = "-" if member["mu"] is None else f"{member['mu']:.1f} ± {member['sigma']:.1f}"
        record = "-" if member["record"] is None else "-".join(map(str, member["record"]))
        made = f"{member['operator']} of {' + '.join(member['parents'])}" if member["parents"] else "start"
        rows.append([member["name"], member["role"], rating, record, str(member["games"]), made])
    return _table(["member", "role", "rating", "won-drawn-lost", "games", "made by"], rows)


def _tasks(chosen: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    blocks: list[str] = []
    for title, views in (("Best paid tasks", chosen["best"]), ("Typical tasks", chosen["typical"])):
        if views:
            blocks.append(f"## {title}")
        for view in views:
            proposal, task = view["proposal"], view["task"]
            rate = "no solve rate" if task["rho"] is None else f"solved {task['rho']:.0%}"
            blocks.append(
                f"{proposal['id']}, step {proposal['step']}, {proposal['kind']}, by {task['author']}, {rate}:"
            )
            text = f"# {task['message']}\n{task['program']}" if task["message"] else task["program"]
            # An indented block holds whatever a model wrote, also back quotes.
            blocks.append("\n".join(f"    {line}" for line in text.strip().splitlines()))
    return blocks


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(_table_line(cells) for cells in lines)


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


# The command.


def run_report(run: Path, out: Path | None, *, as_markdown: bool, repository: str | None = None) -> int:
    """Writes the report (default: report.html in the run), as Markdown to standard output; returns the exit code.

    The page is also published as the Space `repository`.

    Raises RunError if there is no such run or it has played no step, UserError if the file cannot be written.
    """
    if repository is not None and as_markdown:
        raise UserError("--push publishes the page: leave --markdown out")
    library = hub(repository)
    read = LiveRun(run)
    with damage_of(run):
        # The page is read by a browser, which shows such signs as they are; a card is printed and pasted.
        text = printable(markdown(read)) if as_markdown else page(read)
    if as_markdown and out is None:
        print(text, end="")
        return 0
    file = out or run / "report.html"
    try:
        write_text(file, text)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error
    print(file)
    if repository is not None:
        with tempfile.TemporaryDirectory() as folder:
            write_text(Path(folder) / "index.html", text)
            write_text(Path(folder) / "README.md", _space(run))
            push(library, Path(folder), repository, "space", PlainConsole(soft_wrap=True))
    return 0


def _space(run: Path) -> str:
    """Returns the card of a static Space, with the metadata that the hub reads."""
    title = json.dumps(f"Red Queen: {run.resolve().name}")
    return f"""---
title: {title}
emoji: ♛
colorFrom: red
colorTo: gray
sdk: static
app_file: index.html
tags: [redqueen, populora]
---

What happened in a run of Red Queen: the page that `redqueen report` writes.
"""
