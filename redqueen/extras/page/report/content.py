"""What a report shows: the views of the live page, the verdict, and some tasks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from typing import Any

from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.members import league, tree
from redqueen.extras.page.overview import overview
from redqueen.extras.page.state import state
from redqueen.extras.page.task import task_view
from redqueen.extras.page.views import evaluation
from redqueen.store.archive import queries
from redqueen.store.archive.queries import TaskQuery
from redqueen.store.directory import RunError
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
    """Returns the data of the page's views, as the live page's scripts take them."""
    return {
        "overview": overview(run),
        "evaluation": evaluation(run),
        "league": league(run),
        "tree": tree(run),
        "tasks": tasks(run),
    }


def tasks(run: LiveRun) -> dict[str, list[dict[str, Any]]]:
    """Returns tasks as `redqueen.extras.page.task.task_view` gives them.

    The `best` are those that paid their teachers most, the newest first; the `typical` are drawn at random from the
    last quarter of the steps, always the same ones.
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
        "best": [task_view(run, line.id) for line in best],
        "typical": [task_view(run, line.id) for line in chain.from_iterable(typical)],
    }
