"""The tasks of a run as an environment of OpenEnv 0.10, which TRL, verifiers and Spaces reach over its server.

An episode is one task and one answer. `make_app(source)` is the application that a server runs. This module needs
openenv; nothing else of the package imports it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redqueen.base.optional import require
from redqueen.extras.rewards.judges import attempt_verdicts, pay_attempts, posed_tasks, task_row
from redqueen.records import Task

types = require("openenv.core.env_server.types", "openenv", "an environment of OpenEnv")
interfaces = require("openenv.core.env_server.interfaces", "openenv", "an environment of OpenEnv")
http_server = require("openenv.core.env_server.http_server", "openenv", "an environment of OpenEnv")

SPLIT = "train"


class AnswerAction(types.Action):
    """What the model wrote, as it is."""

    text: str


class PuzzleObservation(types.Observation):
    """The question; after the answer, what became of it."""

    prompt: str = ""
    kind: str = ""
    verdict: str = ""
    """The status of the answer: correct, wrong, malformed, ..."""


class PuzzleEnvironment(interfaces.Environment[AnswerAction, PuzzleObservation, types.State]):
    """Poses one task an episode, and pays the game's reward: 1, -0.5 for a wrong answer, -1 for none.

    A fault of the machine is the reward None, and no verdict.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__()
        self._tasks = tasks
        self._task: Task | None = None
        self._state = types.State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, index: int | None = None, **_: Any
    ) -> PuzzleObservation:
        """Poses the task at `index`; without one, a task that `seed` draws. Raises IndexError if there is none."""
        index = random.Random(seed).randrange(len(self._tasks)) if index is None else index
        if not 0 <= index < len(self._tasks):
            raise IndexError(f"no task {index}")
        task = self._tasks[index]
        self._task = task
        self._state = types.State(episode_id=episode_id, step_count=0, task=task.id)
        question = task_row(task, "chat")["prompt"][0]["content"]
        return PuzzleObservation(prompt=question, kind=task.kind, metadata={"id": task.id})

    def step(self, action: AnswerAction, timeout_s: float | None = None, **_: Any) -> PuzzleObservation:
        """Judges the answer, which ends the episode. Raises RuntimeError if no task was posed."""
        del timeout_s
        task = self._task
        if task is None:
            raise RuntimeError("no task is posed: reset comes first, and each episode has one answer")
        verdicts = attempt_verdicts([task], [action.text], ["chat"], [""])
        self._task = None
        self._state.step_count += 1
        return PuzzleObservation(
            kind=task.kind,
            done=True,
            reward=pay_attempts(verdicts)[0],
            verdict=verdicts[0].status,
            metadata={"id": task.id, "detail": verdicts[0].detail},
        )

    @property
    def state(self) -> Any:
        return self._state

    def list_splits(self) -> list[str]:
        return [SPLIT]

    def num_tasks(self, split: str) -> int:
        return len(self._tasks) if split == SPLIT else 0

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Returns what can be posed, without answers."""
        return [self.get_task(split, index) for index in range(self.num_tasks(split))]

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Returns one task without its answer. Raises IndexError if there is none."""
        if not 0 <= index < self.num_tasks(split):
            raise IndexError(f"no task {index} in {split}")
        return {"id": self._tasks[index].id, "index": index, "kind": self._tasks[index].kind}


def make_app(source: str | Path) -> Any:
    """Returns the server's application for the tasks of a run's folder or of an exported file.

    Raises UserError if the source holds none. Tasks similar to a reserved program are left out.
    """
    tasks = posed_tasks(source)
    return http_server.create_fastapi_app(
        lambda: PuzzleEnvironment(tasks), AnswerAction, PuzzleObservation, max_concurrent_envs=64, env_name="redqueen"
    )
