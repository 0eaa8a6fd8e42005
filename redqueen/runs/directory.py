"""The run directory: what a run leaves on disk, and who may write to it.

config.json  environment.json  metrics.jsonl  run.sqlite  checkpoints/
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from redqueen.config import Config, resolve
from redqueen.errors import UserError
from redqueen.runs.metrics import StepMetrics


class RunError(UserError):
    """A run directory that cannot be used as asked; the message says what to do."""


class RunDirectory:
    """The paths and small files of one run.

    A process that trains in it calls `lock` first, so that two processes never write the same files.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.archive = path / "run.sqlite"
        self._metrics = path / "metrics.jsonl"
        self._config = path / "config.json"
        self._lock: int | None = None

    @property
    def exists(self) -> bool:
        """Whether anything is there already, a run or not."""
        return occupied(self.path)

    def create(self, config: Config, environment: Mapping[str, object]) -> None:
        """Makes the directory of a new run.

        Raises RunError if something is there already, or if it cannot be written.
        """
        if self.exists:
            raise RunError(f"{self.path} is not empty")
        try:
            self.checkpoints.mkdir(parents=True)
            write_json(self._config, config.model_dump(mode="json"))
            write_json(self.path / "environment.json", environment)
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror}") from error

    def lock(self) -> None:
        """Claims the directory for this process. Raises RunError if another process trains in it."""
        # The kernel drops a flock when its process ends, however it ends. A file that merely exists would outlive a
        # kill and would have to be removed by hand.
        self._lock = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another process is training in {self.path}") from None

    def unlock(self) -> None:
        """Gives the directory up; does nothing if it was not locked."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def config(self) -> Config:
        """Returns the resolved configuration. Raises RunError if the directory holds no run."""
        try:
            return resolve(json.loads(self._config.read_text()))
        except (OSError, ValueError, UserError) as error:
            raise RunError(f"{self.path} holds no readable run (choose another --run DIR): {error}") from error

    def saved(self) -> list[int]:
        """Returns the steps that have a checkpoint, in order."""
        return saved_steps(self.checkpoints)

    def set_config(self, config: Config) -> None:
        """Replaces the configuration, for a run that is resumed with more steps."""
        write_json(self._config, config.model_dump(mode="json"))

    def metrics(self) -> list[StepMetrics]:
        """Returns all complete lines of metrics.jsonl."""
        if not self._metrics.exists():
            return []
        # A line without its end was cut off by a kill; the step that it tells of is played again on a resume.
        lines = self._metrics.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def append_metrics(self, line: StepMetrics) -> None:
        """Adds one line to metrics.jsonl."""
        with self._metrics.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def rewind_metrics(self, step: int) -> None:
        """Drops the lines of the steps after `step`, and a line that was cut off."""
        lines = [json.dumps(line) + "\n" for line in self.metrics() if line["step"] <= step]
        write_text(self._metrics, "".join(lines))


def occupied(path: Path) -> bool:
    """Returns whether `path` is a file or a folder that is not empty, so that writing there would mix with it."""
    return path.exists() and (not path.is_dir() or any(path.iterdir()))


def saved_steps(checkpoints: Path) -> list[int]:
    """Returns the steps that have a checkpoint in this folder, in order."""
    # People rename a damaged checkpoint to step-000005.bad and the like. Such a folder must not count as step 5.
    matches = (re.fullmatch(r"step-(\d+)", path.name) for path in checkpoints.glob("step-*") if path.is_dir())
    return sorted(int(match[1]) for match in matches if match)


def write_json(path: Path, data: object) -> None:
    """Writes a whole JSON file or nothing."""
    write_text(path, json.dumps(data, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a whole file or nothing: a reader never sees half of it."""
    # Renaming within one folder is atomic, writing is not.
    scratch = path.with_name(f".{path.name}.tmp")
    scratch.write_text(text)
    scratch.replace(path)
