"""The way of a task: the tasks of the run that its teacher was shown, and those that it led to in turn."""

from __future__ import annotations

from dataclasses import asdict

from redqueen.runs.archive import queries, search
from redqueen.runs.archive.rows import ProposalRow
from redqueen.web.live_run import LiveRun
from redqueen.web.task import task_view

SHOWN = 12
"""How many of the tasks are shown that a task led to."""


def task_with_way(run: LiveRun, name: str) -> dict[str, object]:
    """Returns `task_view` with the task's way. Raises UnknownError if the run has no such proposal."""
    return {**task_view(run, name), **_way(run, name)}


def _way(run: LiveRun, name: str) -> dict[str, object]:
    newest = run.newest()
    with run.archive() as archive:
        row = archive.one(ProposalRow, name)
        assert row is not None, "it was found a moment ago, and a run removes nothing"
        came_from = queries.lines_of(archive, sorted(queries.existing(archive, row.reference_ids)))
        # A task can be shown from the step after its own.
        last = newest["step"] if newest else row.step
        found = search.led_to(archive, name, first=row.step + 1, last=last, limit=SHOWN)
        children = queries.lines_of(archive, found.ids[:SHOWN])
    return {
        "came_from": [asdict(line) for line in came_from],
        "led_to": {
            "tasks": [asdict(line) for line in children],
            "more": len(found.ids) - len(children),
            "last": found.last,
            "complete": found.complete,
        },
    }
