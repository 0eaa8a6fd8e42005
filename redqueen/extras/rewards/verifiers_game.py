"""The game as an environment of verifiers 0.4 with two agents: a teacher writes a task, a student attempts it.

`redqueen tasks export --format verifiers` writes a second module beside the taskset, NAME_game, whose openings are made
of the exported tasks. The teacher is paid as in a run, on a task that the jail has verified and by the attempts that it
has judged. This module needs verifiers; nothing else of the package imports it.
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
from redqueen.extras.rewards.judges import can_be_varied, shared_verifier
from redqueen.extras.rewards.verifiers import JailFaultError, Puzzle, puzzle_data
from redqueen.method.prompts import ChatPrompts
from redqueen.records import Draft, Kind, Proposal, Task, Verdict
from redqueen.store.dataset.files import exported_rows, task_of
from redqueen.tasks.kinds import find

vf = require("verifiers.v1", "verifiers", "the game")
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
        start = rng.choice(every) if find(kind).starts_from_program else None
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
