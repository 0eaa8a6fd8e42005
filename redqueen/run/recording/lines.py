"""Prints what a session says around its steps."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from redqueen.config import Config
from redqueen.run.recording.terminal import Heartbeat
from redqueen.run.session import Listener
from redqueen.store.directory import RunDirectory


class Lines(Listener):
    """Prints each line on a console. With a heartbeat it also says so if one of them takes minutes."""

    def __init__(self, console: Console, heartbeat: Heartbeat | None = None) -> None:
        self.console = console
        self.heartbeat = heartbeat

    def note(self, line: str) -> None:
        self._goes_on(line)
        self.console.print(line)

    def warning(self, line: str) -> None:
        self.console.print(line, style="yellow")

    def progress(self, done: int, total: int) -> None:
        if self.heartbeat is not None:
            self.heartbeat.progress(done, total)

    def _goes_on(self, what: str) -> None:
        if self.heartbeat is not None:
            self.heartbeat.begin(what.removesuffix(" ..."))


class ScriptLines(Lines):
    """Prints how a run goes that a script or a notebook trains."""

    def opening(self, config: Config, directory: RunDirectory) -> None:
        """Says what is trained, and where it can be watched."""
        self._goes_on("loading the base")
        what = f"recipe {config.recipe}, {config.run.steps} steps on {Path(config.model.name).name}"
        self.console.print(f"run {directory.path}: {what}; follow it: redqueen watch {directory.path}")
