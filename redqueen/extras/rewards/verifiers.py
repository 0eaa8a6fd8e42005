"""Exported tasks as a taskset of verifiers 0.4 (`verifiers.v1`), judged in the jail, and the game as an environment.

`redqueen tasks export --format verifiers` writes a package whose taskset is `Puzzles` with a file of its own. Beside it
is a second module, NAME_game, whose openings are made of the exported tasks. This module needs verifiers; nothing else
of the package imports it.
"""

from __future__ import annotations

import asyncio
import random
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from pydantic import Field

from redqueen.base.optional import require
from redqueen.config import GameConfig
from redqueen.errors import UserError
from redqueen.extras.rewards.judges import answer_in, can_be_varied, shared_verifier, task_row
from redqueen.method.prompts import ChatPrompts
from redqueen.method.verifier import answer_to
from redqueen.records import Draft, Kind, Proposal, Task, Verdict
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
    asked = task_row(task, "chat")
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


# The game, with two agents: a teacher writes a task, a student attempts it.
#
# The teacher is paid as in a run, on a task that the jail has verified and by the attempts that it has judged.

PAY = GameConfig()
PROMPTS = ChatPrompts(PAY)
# One turn of chat each, in a process of this machine: neither agent has tools.
AGENT = vf.AgentConfig.model_validate({"harness": {"id": "null"}, "runtime": {"type": "subprocess"}})
STATUS = "redqueen_status"
"""Where a teacher's trace says what the verifier said of its proposal."""


class OpeningData(vf.TaskData):
    """What a teacher is asked for."""

    kind: Kind
    start: str = ""
    """The program that a proposal starts from; "" if its kind has the teacher write one."""


class Opening(vf.Task[OpeningData, vf.State, vf.TaskConfig]):
    """A teacher's request for one task. What it earns depends on the student, so `Game` says it."""

    @property
    def key(self) -> str:
        """The opening's number."""
        return str(self.data.id)


class OpeningsConfig(vf.TasksetConfig):
    """Which requests are made, under `--env.taskset.*`."""

    kinds: list[Kind] = Field(default_factory=list)
    """Only tasks of these kinds; none: all that were exported."""
    count: int = 64
    """How many requests there are."""
    references: int = PAY.references
    """Tasks that a teacher sees before it writes."""
    seed: int = 0
    """Draws the references."""


class Openings(vf.Taskset[Opening, OpeningsConfig]):
    """Requests for tasks, with references among the tasks of one exported file."""

    FILE: ClassVar[Path]
    """The exported file. A subclass says which."""

    def load(self) -> list[Opening]:
        """Returns the requests; the kinds take turns. Raises UserError if the file has no task of the kinds."""
        by_kind: dict[Kind, list[Task]] = {}
        for row in exported_rows(self.FILE):
            task = task_of(row)
            if can_be_varied(task):
                by_kind.setdefault(task.kind, []).append(task)
        kinds = [kind for kind in by_kind if not self.config.kinds or kind in self.config.kinds]
        if not kinds:
            raise UserError(
                f"{self.FILE} has no task of the kinds {', '.join(self.config.kinds)} that a teacher could vary"
            )
        every = list(chain.from_iterable(by_kind.values()))
        rng = random.Random(self.config.seed)
        return [
            self._opening(number, kinds[number % len(kinds)], by_kind, every, rng)
            for number in range(self.config.count)
        ]

    def _opening(
        self, number: int, kind: Kind, by_kind: dict[Kind, list[Task]], every: list[Task], rng: random.Random
    ) -> Opening:
        tasks = by_kind[kind]
        shown = rng.sample(tasks, min(self.config.references, len(tasks)))
        start = None
        if find(kind).starts_from_program:
            # A program of another language is no start.
            language = find(kind).language.name
            start = rng.choice([task for task in every if find(task.kind).language.name == language])
        text = PROMPTS.propose(kind, shown, start).text
        return Opening(OpeningData(id=str(number), prompt=text, kind=kind, start=start.program if start else ""))


class RedQueenConfig(vf.EnvConfig):
    """The two agents, under `--env.teacher.*` and `--env.student.*`."""

    teacher: vf.AgentConfig = AGENT  # pyright: ignore[reportInvalidTypeForm]
    student: vf.AgentConfig = AGENT  # pyright: ignore[reportInvalidTypeForm]
    attempts: int = PAY.attempts
    """Attempts of the student at each valid task."""


class RedQueen(vf.Env[RedQueenConfig]):
    """One match: a proposal, and the attempts at it if it is a task."""

    async def run(self, task: Any, agents: Any) -> None:
        """Plays the match. Raises JailFaultError if the machine could not verify the proposal."""
        trace = await agents.teacher.run(task)
        verdict, made = await self._verified(task.data, str(trace.id), trace.last_reply)
        if verdict.status == "infra_error":
            raise JailFaultError(verdict.detail)
        trace.info[STATUS] = verdict.status
        if made is None:
            return
        async with asyncio.TaskGroup() as group:
            for _ in range(self.config.attempts):
                group.create_task(agents.student.run(Puzzle(puzzle_data(made))))

    async def finalize(self, task: Any, episode: Any) -> None:
        """Pays the teacher: -1 for what is not a task, 0 for a task that was never solved, else 1 - the solve rate."""
        del task
        (proposal,) = [trace for trace in episode.traces if trace.agent.name == "teacher"]
        status = proposal.info[STATUS]
        proposal.record_metric("valid", float(status == "valid"))
        if status != "valid":
            proposal.record_reward("teacher", PAY.teacher_invalid)
            return
        judged = [trace for trace in episode.traces if trace.agent.name == "student" and trace.ok]
        if not judged:
            raise JailFaultError("no attempt could be judged")
        rate = fmean(trace.rewards["correct"].score for trace in judged)
        proposal.record_metric("solve_rate", rate)
        proposal.record_reward("teacher", 1 - rate if rate else PAY.teacher_unsolved)

    async def _verified(self, asked: Any, name: str, text: str) -> tuple[Verdict, Task | None]:
        """Returns what the verifier says of a teacher's text, and the task that it makes."""
        start = None
        if asked.start:
            start = Task(id="start", kind=asked.kind, author="", step=0, program=asked.start, pairs=())
        draft = PROMPTS.read_proposal(asked.kind, text, start)
        if not isinstance(draft, Draft):
            return Verdict("malformed", detail=draft), None
        proposal = Proposal(id=name, kind=asked.kind, author="teacher", step=0, draft=draft)
        return await asyncio.wrap_future(shared_verifier().judge_proposal(proposal))
