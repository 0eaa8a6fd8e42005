"""The phases of a step: announced, measured, and written into a small file for the live page."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from redqueen.base.machine import now
from redqueen.engine.policy import MemberPolicy
from redqueen.engine.work import Work
from redqueen.run.recording.recorder import Recorder
from redqueen.store.directory import RunDirectory, write_text
from redqueen.store.files import to_json

# Proposals and attempts are sampled together, so their work is one.
_WORK_OF = {"propose": "play", "solve": "play"}


class Phases:
    """Announces a step's phases and measures them."""

    def __init__(self, step: int, watchers: Sequence[Recorder], policy: MemberPolicy) -> None:
        self.step = step
        self.watchers = watchers
        self.policy = policy
        self.name = ""
        self.start = 0.0
        self.work: dict[str, Work] = {}
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Announces a phase and measures it from its beginning to its end, beside what it took before."""
        self._begin(name)
        yield
        # After an error there is no step to record, so its time is not needed: no `finally`.
        self._end()

    def next(self, name: str) -> None:
        """Ends the present phase and begins another, which ends where the present one would have."""
        self._end()
        self._begin(name)

    def _begin(self, name: str) -> None:
        # A phase may go on after a pause.
        if name != self.name:
            for watcher in self.watchers:
                watcher.phase(self.step, name)
        self.name = name
        self.start = time.perf_counter()

    def _end(self) -> None:
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + time.perf_counter() - self.start
        self.seconds["total"] = sum(value for key, value in self.seconds.items() if key != "total")
        self.work.setdefault(_WORK_OF.get(self.name, self.name), Work()).add(self.policy.take_work())

    def progress(self, done: int, total: int) -> None:
        """Tells the watchers that the present phase has done `done` of `total` parts."""
        for watcher in self.watchers:
            watcher.progress(done, total)


# Writes what the present step is doing into a small file of the run, for the live page.

EVERY_S = 1.0
"""Seconds between two writings in one phase."""


class NowRecorder(Recorder):
    """Writes now.json at the beginning of each phase, and at most once a second while one goes on."""

    def __init__(self, directory: RunDirectory) -> None:
        self.file = directory.now_file
        self._step = 0
        self._phase = ""
        self._since = ""
        self._written = 0.0

    def phase(self, step: int, name: str) -> None:
        self._step = step
        self._phase = name
        self._since = now()
        self._write(0, 0)

    def progress(self, done: int, total: int) -> None:
        # Some phases tell of each of their texts, thousands in a step.
        if time.monotonic() - self._written >= EVERY_S:
            self._write(done, total)

    def close(self) -> None:
        self.file.unlink(missing_ok=True)

    def _write(self, done: int, total: int) -> None:
        self._written = time.monotonic()
        present = {"step": self._step, "phase": self._phase, "done": done, "total": total, "since": self._since}
        # It is of no use after this process, and written too often to wait for the disk each time.
        write_text(self.file, to_json(present), lasting=False)
