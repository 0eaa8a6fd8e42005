"""Announces the phases of a step and measures them."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from redqueen.engine.policy import MemberPolicy
from redqueen.engine.work import Work
from redqueen.run.recording.recorder import Recorder

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
