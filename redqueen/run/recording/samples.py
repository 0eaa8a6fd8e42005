"""What people look at beside the curves: some tasks of a step, each with what was answered and what that was paid."""

from __future__ import annotations

from collections.abc import Mapping

from redqueen.method.played_step import PlayedStep, ScoredPosed, ScoredProposal
from redqueen.records import Task

NAME = "samples"
"""What the table is called in every library."""
MOST = 16
"""Rows of one table. They are spread over the step's matches."""
Row = Mapping[str, str | float | None]
"""A valid task with its attempts; all rows have the same names, in one order (docs/TRACKERS.md)."""


def sampled(played: PlayedStep) -> list[Row]:
    """Returns up to `MOST` valid tasks of a step, evenly spread, in the step's order."""
    valid: list[tuple[str, ScoredProposal | ScoredPosed, Task]] = []
    for scored in played.proposals:
        if scored.proposed.task is not None:
            valid.append((scored.proposed.student, scored, scored.proposed.task))
    valid += [(scored.posed.student, scored, scored.posed.task) for scored in played.posed]
    count = min(MOST, len(valid))
    return [_row(*valid[number * len(valid) // count]) for number in range(count)]


def _row(student: str, scored: ScoredProposal | ScoredPosed, task: Task) -> Row:
    texts = [
        f"{attempt.attempted.verdict.status}, paid {attempt.reward}:\n{attempt.attempted.rollout.completion.text}"
        for attempt in scored.attempts
    ]
    return {
        "id": task.id,
        "kind": task.kind,
        "author": task.author,
        "student": student,
        "solve_rate": scored.solve_rate,
        "teacher_reward": scored.reward if isinstance(scored, ScoredProposal) else None,
        "program": task.program,
        "message": task.message,
        "inputs": "\n".join(pair.input for pair in task.pairs),
        "outputs": "\n".join(pair.output for pair in task.pairs),
        "attempts": "\n\n".join(texts),
    }
