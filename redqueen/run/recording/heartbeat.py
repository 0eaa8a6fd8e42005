"""Says once a minute what a run is doing, where no live view shows it: in a log, a batch job, a notebook."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from redqueen.base.machine import clock

EVERY_S = 60.0
"""Seconds of silence after which a line is due."""


class Heartbeat:
    """Tells what goes on, and how far it is, after each minute in which nothing else was said.

    It speaks from a thread of its own, since what takes minutes may call nothing meanwhile.
    """

    def __init__(self, say: Callable[[str], None], every_s: float = EVERY_S) -> None:
        self._say = say
        self._every_s = every_s
        self._what = ""
        self._since = time.monotonic()
        self._done = 0
        self._total = 0
        self._spoke = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._beat, daemon=True, name="heartbeat")

    def begin(self, what: str) -> None:
        """Says nothing by itself: `what` is what goes on from now on."""
        self._what = what
        self._since = time.monotonic()
        self._done = self._total = 0
        if not self._thread.is_alive() and not self._closed:
            self._thread.start()

    def progress(self, done: int, total: int) -> None:
        """Takes note of how far it is."""
        self._done = done
        self._total = total

    def spoke(self) -> None:
        """Begins a new minute: something was printed."""
        self._spoke.set()

    def line(self) -> str:
        """Returns what goes on, how far it is, and since when."""
        parts = f", {self._done} of {self._total}" if self._total else ""
        return f"{self._what}{parts}, for {clock(time.monotonic() - self._since)}"

    def close(self) -> None:
        """Ends it; nothing is said afterwards."""
        self._closed = True
        self._spoke.set()
        if self._thread.is_alive():
            self._thread.join()

    def _beat(self) -> None:
        while not self._closed:
            if self._spoke.wait(self._every_s):
                self._spoke.clear()
            else:
                self._say(self.line())
