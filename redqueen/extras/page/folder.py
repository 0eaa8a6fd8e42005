"""The runs that one page shows: a run, or all runs in a folder."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from redqueen.extras.page.live_run import LiveRun
from redqueen.store.directory import RunDirectory, RunError

_DEPTH = 3
"""How many folders below the given one a run may be: a sweep has its runs in runs/COMBINATION-SEED."""


class UnknownError(RunError):
    """What was asked for is not in the run, or there is no such run."""


class Folder:
    """Finds runs by name. A name is a path relative to the folder; "" is the folder itself."""

    def __init__(self, path: Path) -> None:
        """Raises RunError if there is no such folder, or no run in it."""
        self.path = path
        self.single = (path / "config.json").exists()
        self._runs: dict[str, LiveRun] = {}
        self._mutex = threading.Lock()
        if not self.names():
            # The same line as for every other command that is given no run.
            RunDirectory(path).config()

    def names(self) -> list[str]:
        """Returns the runs that are there now, in order of their names."""
        if self.single:
            return [""]
        names: list[str] = []
        for folder, below, files in os.walk(self.path):
            where = Path(folder).relative_to(self.path)
            if "config.json" in files:
                names.append(where.as_posix())
            # A run holds checkpoints and no runs; hidden folders are nobody's runs.
            too_deep = len(where.parts) >= _DEPTH
            below[:] = [] if too_deep or "config.json" in files else sorted(n for n in below if n[0] != ".")
        return names

    def run(self, name: str) -> LiveRun:
        """Returns the run of this name. Raises UnknownError if there is none."""
        with self._mutex:
            if name not in self._runs:
                # A name is looked up among those found and never joined to a path as it came.
                if name not in self.names():
                    raise UnknownError(f"{self.path} holds no run '{name}'")
                self._runs[name] = LiveRun(self.path / name)
            return self._runs[name]

    def title(self, name: str) -> str:
        """Returns what a person calls the run."""
        return name or self.path.resolve().name
