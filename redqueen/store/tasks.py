"""What teachers proposed and students answered: a run's tasks with their attempts, from its archive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from redqueen.base.intervals import mean
from redqueen.records import Kind
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import BANK, AttemptRow, MatchRow, ProposalRow, TaskRow
from redqueen.store.directory import RunDirectory
from redqueen.tasks.kinds import find_or_plain

_FENCED = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
Order = Literal["newest", "best", "worst"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHistory:
    """A proposal with everything that became of it."""

    proposal: ProposalRow
    student: str
    """Who was matched with the teacher."""
    task: TaskRow | None
    """None if the proposal was refused."""
    attempts: tuple[AttemptRow, ...]
    """In the order of their numbers; empty if the proposal was refused."""


def proposals(run: Path, step: int | None = None) -> list[TaskHistory]:
    """Returns the proposals of `step`, or of all steps, newest step first, and as written within a step.

    Raises RunError if there is no such run.
    """
    with ArchiveReader(RunDirectory(run).archive) as archive:
        students = {row.id: row.student for row in archive.every(MatchRow, step)}
        tasks = {row.id: row for row in archive.every(TaskRow, step)}
        attempts: dict[str, list[AttemptRow]] = {}
        for attempt in archive.every(AttemptRow, step):
            attempts.setdefault(attempt.task, []).append(attempt)
        rows = archive.every(ProposalRow, step)
    every = [
        TaskHistory(
            proposal=row, student=students[row.match], task=tasks.get(row.id), attempts=tuple(attempts.get(row.id, ()))
        )
        for row in rows
    ]
    return sorted(every, key=lambda one: -one.proposal.step)


def given_program(row: ProposalRow) -> str:
    """Returns the program that a proposal started from; empty if its kind starts from none.

    A refused proposal is no task, so its program stands in its prompt alone.
    """
    kind = find_or_plain(row.kind)
    if not kind.starts_from_program:
        return ""
    # In the chat format it is the first block, before the examples; in the other one it is below the last heading.
    fences = _FENCED.findall(row.prompt)
    return (fences[0] if fences else row.prompt.rpartition(f"{kind.heading}\n")[2]).strip("\n")


def select(every: Sequence[TaskHistory], member: str | None, kind: Kind | None, order: Order) -> list[TaskHistory]:
    """Returns what `member` (default: anybody) wrote or attempted, of one kind or all, in this order.

    "best" and "worst" go by what `member` was paid: the mean over its attempts, or the reward of the proposal. Without
    a member it is the proposal's. Refused proposals are paid least, so "worst" begins with them; "newest" leaves them
    out.
    """
    chosen = [proposed for proposed in every if kind is None or proposed.proposal.kind == kind]
    if member is not None:
        chosen = [proposed for proposed in chosen if member in (proposed.proposal.teacher, proposed.student)]
    if order == "newest":
        return [proposed for proposed in chosen if proposed.task is not None]
    paid = [(pay, proposed) for proposed in chosen if (pay := _pay(proposed, member)) is not None]
    # Python's sort keeps the order of equals, so equally paid ones stay newest first.
    paid.sort(key=lambda item: item[0], reverse=order == "best")
    return [proposed for _, proposed in paid]


def _pay(one: TaskHistory, member: str | None) -> float | None:
    """Returns what `member` was paid; None where it was paid nothing, such as after a fault of the machine.

    Without a member it is what the teacher was paid, and the student at a fixed task, which no teacher wrote.
    """
    if member == one.proposal.teacher or (member is None and one.proposal.teacher != BANK):
        return one.proposal.reward
    return mean(attempt.reward for attempt in one.attempts)
