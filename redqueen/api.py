"""Runs from Python: `redqueen.Run` reads a run, starts a new one, and goes on with one that was stopped."""

# What needs torch is imported when it is used, as in `redqueen.cli`: reading a run takes no second of loading.
# ruff: noqa: PLC0415

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from redqueen.analysis.dataset.rows import TaskRecord, read_tasks
from redqueen.analysis.lineage.tree import Life, lives
from redqueen.analysis.tasks import Proposed, proposals
from redqueen.config import Config
from redqueen.config.keys import as_text
from redqueen.machine import set_library_defaults
from redqueen.optional import require
from redqueen.recipes import configure
from redqueen.records import Verifier
from redqueen.runs.allowed import with_own_parts
from redqueen.runs.directory import RunDirectory
from redqueen.runs.metrics import StepMetrics
from redqueen.runs.numbers import numbers
from redqueen.runs.resuming import remaining

Settings = Mapping[str, object]


class Run:
    """A run's folder. It is read anew at each call, so it can be followed while it is trained.

    Errors that a user can correct are `redqueen.errors.UserError`; each is one line that says what to do.
    """

    def __init__(self, path: str | Path) -> None:
        """Opens the run in the folder `path`. Raises RunError if it holds none."""
        self.path = Path(path)
        self._directory = RunDirectory(self.path)
        self._directory.config()

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @classmethod
    def train(
        cls,
        recipe: str = "quickstart",
        settings: Settings | None = None,
        *,
        path: str | Path,
        recorders: Sequence[Any] = (),
        verifier: Verifier | None = None,
    ) -> Self:
        """Trains a new run in the folder `path`, as `redqueen train` does, and returns it when it is done.

        `settings` are those of `redqueen keys`: {"run.steps": 20, "game.kinds": ["code_o"]}. Each of `recorders`, which
        are `redqueen.recording.recorder.Recorder`s, hears of each step, and is closed when the training ends.
        `verifier` judges in place of the run's own and stays open. Nothing is printed; warnings go to Python's logging,
        as `redqueen`. A script that trains with more than one worker process must start under
        `if __name__ == "__main__":`. Ctrl-C stops the run.
        Raises UserError if a setting is impossible, if the folder holds something, or if the run does not fit into
        memory; KeyboardInterrupt if it was stopped.
        """
        set_library_defaults()
        config = configure([recipe, *_assignments(settings)])
        from redqueen.session import Attached, start

        start(config, RunDirectory(Path(path)), Attached(command=_caller(), recorders=recorders, verifier=verifier))
        return cls(path)

    def resume(
        self,
        settings: Settings | None = None,
        *,
        recorders: Sequence[Any] = (),
        verifier: Verifier | None = None,
        load_plugins: bool = False,
    ) -> Self:
        """Trains the steps that are left, as `redqueen train --resume` does, and returns the run when it is done.

        `settings` may change what does not change results: {"run.steps": 40} extends the run. Nothing happens if no
        step is left. `recorders` and `verifier` are as for `train`, and are given anew. A run with own parts needs
        `load_plugins`, which imports the modules that its config.json names.
        Raises UserError as `train` does, KeyboardInterrupt if the run was stopped.
        """
        set_library_defaults()
        assignments = _assignments(settings)
        config = remaining(self._directory, assignments)
        if config is not None:
            config = with_own_parts(config, self._directory.config_file, allowed=load_plugins)
            from redqueen.session import Attached, resume

            attached = Attached(command=_caller(), recorders=recorders, verifier=verifier)
            resume(config, self._directory, attached, {each.partition("=")[0] for each in assignments})
        return self

    @property
    def config(self) -> Config:
        """The whole configuration."""
        return self._directory.config()

    def steps(self) -> list[StepMetrics]:
        """Returns what was measured in each step that was played: the lines of metrics.jsonl (docs/METRICS.md)."""
        return self._directory.metrics()

    def steps_frame(self) -> Any:
        """Returns a `pandas.DataFrame` with one row a step, `step` as its index, and one column for each number.

        A nested number has a name like `solve_rate_by_kind/code_o`; a number that a step does not have is NaN.
        Raises MissingLibraryError if pandas is not installed.
        """
        pandas = require("pandas", "data", "steps_frame()")
        lines = self.steps()
        index = pandas.Index([line["step"] for line in lines], name="step")
        return pandas.DataFrame([numbers(line) for line in lines], index=index, dtype="float64")

    def tasks(self, step: int | None = None) -> list[Proposed]:
        """Returns the valid tasks of `step`, or of all steps, newest step first, each with its attempts.

        `.task` has the program, its inputs and outputs and the solve rate, `.proposal` the teacher's text and its
        reward, `.attempts` what the student wrote, each with its verdict and reward.
        """
        return [one for one in proposals(self.path, step) if one.task is not None]

    def tasks_frame(self) -> Any:
        """Returns a `pandas.DataFrame` with one row for each valid task, oldest first.

        The columns are those of `redqueen tasks export` (docs/DATA.md). Raises MissingLibraryError if pandas is not
        installed.
        """
        pandas = require("pandas", "data", "tasks_frame()")
        names = list(TaskRecord.__dataclass_fields__)
        return pandas.DataFrame([asdict(record) for record in read_tasks(self.path)], columns=names)

    def members(self) -> list[Life]:
        """Returns every member that ever lived, in order of birth: role, parents, fitness, and when it was replaced."""
        return lives(self.path)

    def adapter(self, member: str, step: int | None = None) -> Path:
        """Returns the PEFT folder of a member, after `step` steps or as late as it is kept.

        `member` is a name, "best-student" or "best-teacher". The folder belongs to a checkpoint of the run: read it or
        copy it, but do not change it. Raises RunError if there is no such member or no checkpoint that has it.
        """
        from redqueen.analysis.find_member import find_member

        found = find_member(self._directory, self.config, member, step)
        return self._directory.checkpoints / f"step-{found.saved.step:06d}" / "members" / found.member.name


def _assignments(settings: Settings | None) -> list[str]:
    """Returns settings as a command line writes them."""
    return [
        f"{key}={as_text(tuple(value) if isinstance(value, list) else value)}"
        for key, value in (settings or {}).items()
    ]


def _caller() -> str:
    """Returns what trains a run, for its record."""
    return f"redqueen.Run, in {shlex.join(sys.argv) or 'an interpreter'}"
