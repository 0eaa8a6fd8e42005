"""The runs of a page: one run or all runs in a folder, each read again only where it has changed."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from redqueen.analysis.verdict import RunVerdict, verdict
from redqueen.config import Config
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.directory import RunDirectory, RunError
from redqueen.store.files import check_archive, read_object
from redqueen.store.metrics import StepMetrics

Stamp = tuple[tuple[int, int], ...]
"""The time of change and the size of some files; (0, 0) for one that is not there."""


class LiveRun:
    """Reads a run again and again, each time only what has changed. Requests come from several threads."""

    def __init__(self, path: Path) -> None:
        self.directory = RunDirectory(path)
        self._metrics = path / "metrics.jsonl"
        self._environment = path / "environment.json"
        self._mutex = threading.Lock()
        self._lines: list[StepMetrics] = []
        self._lines_stamp: Stamp = ()
        self._verdict: tuple[list[StepMetrics], RunVerdict] | None = None
        self._newest: StepMetrics | None = None
        self._newest_stamp: Stamp = ()
        self._copy: TemporaryDirectory[str] | None = None
        self._copy_stamp: Stamp = ()

    def stamp(self) -> str:
        """Returns a text that changes whenever the run has something new to show. It costs no reading."""
        files = (self._metrics, self.directory.evaluation, self.directory.stop_file)
        return " ".join(f"{when}-{size}" for when, size in stamp(*files))

    def config(self) -> Config:
        """Returns the run's configuration. Raises RunError if it cannot be read."""
        return self.directory.config()

    def environment(self) -> dict[str, Any]:
        """Returns environment.json; {} where it cannot be read, for it is a record that the run can do without."""
        self.directory.check_links()
        return read_object(self._environment)

    def now(self) -> dict[str, Any]:
        """Returns now.json, what the present step is doing; {} where no process trains."""
        self.directory.check_links()
        return read_object(self.directory.now_file)

    def stopped(self) -> dict[str, Any]:
        """Returns stopped.json, why the run ended before its last step; {} where that is not known."""
        self.directory.check_links()
        return read_object(self.directory.stop_file)

    def sessions(self) -> list[dict[str, Any]]:
        """Returns what environment.json says of each session, the first one's and then those that resumed the run."""
        environment = self.environment()
        resumed: Any = environment.pop("resumed", None)
        every = [environment, *(cast(list[Any], resumed) if isinstance(resumed, list) else [])]
        return [cast(dict[str, Any], session) for session in every if isinstance(session, dict)]

    def isolation(self) -> str:
        """Returns how well programs were isolated in the newest session that says so."""
        # A resumed run may run on another machine than the one that it began on.
        isolations = [session.get("isolation") for session in reversed(self.sessions())]
        return next((isolation for isolation in isolations if isinstance(isolation, str)), "not recorded")

    def lines(self) -> list[StepMetrics]:
        """Returns the lines of metrics.jsonl. Raises RunError if the file is damaged."""
        with self._mutex:
            now = stamp(self._metrics)
            if now != self._lines_stamp:
                self._lines = self.directory.metrics()
                self._lines_stamp = now
            return self._lines

    def verdict(self) -> RunVerdict:
        """Returns the verdict so far. Raises RunError if metrics.jsonl is damaged."""
        lines = self.lines()
        cached = self._verdict
        # A list of many runs asks each of them, and most do not change.
        if cached is None or cached[0] is not lines:
            cached = (lines, verdict(lines))
            self._verdict = cached
        return cached[1]

    def newest(self) -> StepMetrics | None:
        """Returns the last line of metrics.jsonl, None before the first step. Raises RunError if it is damaged."""
        with self._mutex:
            now = stamp(self._metrics)
            if now == self._lines_stamp:
                return self._lines[-1] if self._lines else None
            # The lines of a long run take longer to parse than most views to answer.
            if now != self._newest_stamp:
                self._newest = self.directory.newest_metrics()
                self._newest_stamp = now
            return self._newest

    @contextmanager
    def archive(self) -> Iterator[ArchiveReader]:
        """Opens the archive for one request. Raises RunError if there is none yet, or if it is damaged."""
        # It is closed after each request: while a reader holds it, a run that ends could not fold the log of new rows
        # into the file.
        file = self.directory.archive
        check_archive(file, writes=False)
        log = file.with_name(f"{file.name}-wal")
        if not log.exists() or os.access(file.parent, os.W_OK):
            with ArchiveReader(file) as reader:
                yield reader
            return
        # SQLite reads a log only where it can write next to it. `copy` keeps the copied files until this request is
        # done, also if another request has made a newer copy by then.
        copy = self._copied(file, log)
        with ArchiveReader(Path(copy.name) / file.name) as reader:
            yield reader

    def _copied(self, file: Path, log: Path) -> TemporaryDirectory[str]:
        """Returns a folder with a copy of the archive and its log. One copy serves until they change."""
        with self._mutex:
            now = stamp(file, log)
            if self._copy is None or now != self._copy_stamp:
                self._copy = TemporaryDirectory(prefix="redqueen-")
                for source in (file, log):
                    shutil.copyfile(source, Path(self._copy.name) / source.name)
                self._copy_stamp = now
            return self._copy


def stamp(*files: Path) -> Stamp:
    """Returns when these files changed, and their sizes."""
    return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except FileNotFoundError:
        return (0, 0)
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror}") from error
    return (status.st_mtime_ns, status.st_size)


# The runs that one page shows.

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
            # A run holds checkpoints and no runs; hidden folders are not runs.
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
