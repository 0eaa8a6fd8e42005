"""Exported tasks as a taskset of verifiers 0.4 (`verifiers.v1`), judged in the jail.

`redqueen tasks export --format verifiers` writes a package whose taskset is `Puzzles` with a file of its own. This
module needs verifiers; nothing else of the package imports it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from redqueen.base.optional import require
from redqueen.extras.rewards.judges import answer_in, shared_verifier, task_row
from redqueen.method.verifier import answer_to
from redqueen.records import Kind, Proposal, Task
from redqueen.store.dataset.files import exported_rows, task_of
from redqueen.tasks.kinds import find

vf = require("verifiers.v1", "verifiers", "a taskset")


class PuzzleData(vf.TaskData):
    """What one task carries, as the exported file has it."""

    kind: Kind
    program: str
    inputs: list[str]
    outputs: list[str]
    message: str = ""
    solve_rate: float | None = None
    """How often the run's student solved it, in sample."""


class JailFaultError(RuntimeError):
    """The machine could not judge an answer. It is no verdict, so verifiers gets an error and no reward."""


class Puzzle(vf.Task[PuzzleData, vf.State, vf.TaskConfig]):
    """One task of the game, of any kind that was exported."""

    @property
    def key(self) -> str:
        """The task's id in its run."""
        return str(self.data.id)

    @vf.reward(weight=1.0)
    async def correct(self, trace: Any) -> float:
        """Returns 1 for a right answer and 0 for any other, and records whether there was an answer at all."""
        task = task_of(self.data.model_dump())
        answer = answer_in(task, trace.last_reply, "chat")
        verdict = await asyncio.wrap_future(shared_verifier().judge_answer(answer_to(task, answer)))
        if verdict.status in ("infra_error", "nondeterministic"):
            raise JailFaultError(f"{verdict.status}: {verdict.detail}")
        trace.record_metric("malformed", float(verdict.status == "malformed"))
        return float(verdict.status == "correct")

    async def validate(self, runtime: object) -> bool:
        """Returns whether the program still gives the recorded outputs, again and in another interpreter.

        A task without a program has nothing to run, and is taken as it is.
        """
        del runtime
        task = task_of(self.data.model_dump())
        if not find(task.kind).has_program(task):
            return True
        proposal = Proposal(id=task.id, kind=task.kind, author="", step=0, draft=task.draft)
        verdict, made = await asyncio.wrap_future(shared_verifier().judge_proposal(proposal))
        if verdict.status == "infra_error":
            raise JailFaultError(verdict.detail)
        return made is not None and made.pairs == task.pairs


class PuzzlesConfig(vf.TasksetConfig):
    """Which tasks are loaded, under `--env.taskset.*`."""

    kinds: list[Kind] = Field(default_factory=list)
    """Only tasks of these kinds; none: all."""
    least_solved: float = 0.0
    """Only tasks with at least this solve rate. Tasks without attempts have none, and are always loaded."""
    most_solved: float = 1.0
    """Only tasks with at most this solve rate."""


class Puzzles(vf.Taskset[Puzzle, PuzzlesConfig]):
    """The tasks of one exported file."""

    FILE: ClassVar[Path]
    """The exported file. A subclass says which."""

    def load(self) -> list[Puzzle]:
        """Returns the tasks. Raises UserError if a row of the file is not a task."""
        puzzles: list[Puzzle] = []
        for row in exported_rows(self.FILE):
            data = puzzle_data(task_of(row), row.get("solve_rate"))
            rate = data.solve_rate
            in_range = rate is None or self.config.least_solved <= rate <= self.config.most_solved
            if in_range and (not self.config.kinds or data.kind in self.config.kinds):
                puzzles.append(Puzzle(data, self.config.task))
        return puzzles


def puzzle_data(task: Task, solve_rate: float | None = None) -> Any:
    """Returns what a task carries."""
    asked = task_row(task, "chat").columns()
    return PuzzleData(
        id=task.id,
        prompt=asked["prompt"],
        kind=task.kind,
        program=task.program,
        inputs=asked["inputs"],
        outputs=asked["outputs"],
        message=task.message,
        solve_rate=solve_rate,
    )
