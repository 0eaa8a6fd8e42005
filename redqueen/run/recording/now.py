"""Writes what the present step is doing into a small file of the run, for the live page."""

from __future__ import annotations

import time

from redqueen.base.machine import now
from redqueen.run.recording.recorder import Recorder
from redqueen.store.directory import RunDirectory, write_text
from redqueen.store.files import to_json

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
