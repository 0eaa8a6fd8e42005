"""What work brings an attempt: is it right more often than attempts at the same task that have none?"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from redqueen.method.prompts import taken_apart
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import AttemptRow, TaskRow
from redqueen.store.directory import RunDirectory

QUARTERS = 4
Rights = tuple[list[bool], list[bool]]
"""Which attempts at a task are right: of those without work, and of those with some."""


def pay_of_work(run: RunDirectory) -> dict[str, list[dict[str, float]]] | None:
    """Returns `differences` of a finished run by kind and quarter; None where prompts do not ask for work."""
    prompts = run.config().model.prompts
    if prompts != "work":
        return None
    with ArchiveReader(run.archive) as reader:
        kinds = {task.id: task.kind for task in reader.every(TaskRow)}
        attempts = list(reader.every(AttemptRow))
    steps = max((row.step for row in attempts), default=0)
    found: dict[str, list[dict[str, Rights]]] = {kind: [{} for _ in range(QUARTERS)] for kind in set(kinds.values())}
    for row in attempts:
        if row.reward is None:
            continue
        kind = kinds[row.task]
        quarter = found[kind][QUARTERS * (row.step - 1) // steps]
        worked = taken_apart(prompts, kind, row.text).work != ""
        quarter.setdefault(row.task, ([], []))[worked].append(row.status == "correct")
    return {kind: [differences(quarter) for quarter in quarters] for kind, quarters in sorted(found.items())}


def differences(tasks: Mapping[str, Rights]) -> dict[str, float]:
    """Returns the share of attempts with work, how many tasks have attempts of both sorts, and `right`.

    That is by how much attempts with work are right more often at such a task, as a mean over these tasks; 0 without
    any.
    """
    sizes = [(len(without), len(worked)) for without, worked in tasks.values()]
    both = [fmean(worked) - fmean(without) for without, worked in tasks.values() if without and worked]
    every = sum(map(sum, sizes))
    share = sum(worked for _, worked in sizes) / every if every else 0.0
    return {"share": round(share, 4), "tasks": len(both), "right": round(fmean(both), 4) if both else 0.0}
