"""`redqueen report --markdown`: the numbers of a report as text, for a model card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from redqueen.analysis.verdict import HEAD, oscillation_words, trend_rows
from redqueen.base.intervals import mean
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.members import league
from redqueen.extras.page.report.content import check, facts, tasks
from redqueen.extras.page.views import evaluation
from redqueen.run.recording.metrics import Panel, panels

_OF_RUN = ("mean", "best", "worst")
"""Columns whose titles do not name their run."""
_LEFT_OUT = ("ratings-", "sigma-")
"""Panels with a curve a member: the league table says the same."""


def markdown(run: LiveRun) -> str:
    """Returns the report as Markdown. Raises RunError if there is no such run or it has played no step."""
    lines = check(run)
    verdict = run.verdict()
    blocks = [
        f"# {run.directory.path.resolve().name}",
        "\n".join(f"- {name}: {value}" for name, value in facts(run).items()),
        f"## Verdict: {verdict.word}",
        f"{verdict.reason} {oscillation_words(verdict.oscillation)}",
    ]
    if rows := trend_rows(verdict):
        blocks.append(_table(HEAD, rows))
    blocks += _evaluation(evaluation(run)["evaluation"])
    shown = [panel for panel in panels(lines, run.directory.own_metrics()) if not panel.key.startswith(_LEFT_OUT)]
    blocks += [
        "## Course",
        "Means over the first and the last quarter of the steps. Rates are in sample: measured on the tasks that the "
        "members train on.",
        _table(["", "unit", "first quarter", "last quarter"], [row for panel in shown for row in _panel_rows(panel)]),
        "## League",
        _league(league(run)),
        *_tasks(tasks(run)),
    ]
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
