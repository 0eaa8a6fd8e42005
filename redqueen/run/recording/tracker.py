"""What all trackers share: what of a step they are sent, and that a failure is one line and not the end of a run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from redqueen.run.recording.recorder import Recorder, Session, StepRecord
from redqueen.run.recording.samples import Row, sampled
from redqueen.store.numbers import numbers

PROJECT = "redqueen"
"""The project or experiment that runs are listed under."""


class Tracker(Recorder):
    """Sends each step's numbers to one library, and tables of samples. The first failure switches it off.

    A class that derives from this one opens the library in `__init__`, which may raise anything.
    """

    name = ""
    """What `run.trackers` calls it."""
    id: str | None = None
    """What its library knows the run by; None if it needs no id to go on with a run."""
    where = ""
    """How to look at it."""

    def __init__(self, session: Session) -> None:
        self.directory = session.directory
        self.say = session.say
        self.samples_every = session.config.run.samples_every
        self.failed = False

    @abstractmethod
    def send(self, step: int, values: Mapping[str, float]) -> None:
        """Hands the numbers of a step to the library. May raise anything."""

    # Empty on purpose: a library without tables gets none.
    def send_samples(self, step: int, rows: Sequence[Row]) -> None:
        """Hands a table of tasks to the library, after the step's numbers. May raise anything."""

    @abstractmethod
    def finish(self) -> None:
        """Ends the library's run. May raise anything."""

    def record(self, record: StepRecord) -> None:
        """Sends the newest line of metrics.jsonl, which this step has just written, and samples if it is their turn."""
        line = self.directory.newest_metrics()
        if line is not None:
            values = {name: value for name, value in numbers(line).items() if value is not None}
            self._try(lambda: self.send(record.step, values))
        if self.samples_every and record.step % self.samples_every == 0:
            rows = sampled(record.played)
            if rows:
                self._try(lambda: self.send_samples(record.step, rows))

    def close(self) -> None:
        """Ends the library's run, unless it has failed before."""
        self._try(self.finish)

    def _try(self, act: Callable[[], None]) -> None:
        if self.failed:
            return
        try:
            act()
        # A service that fails in its own ways is no reason to stop a run.
        except Exception as error:  # noqa: BLE001
            self.failed = True
            self.say(failure(self.name, error))


def failure(name: str, error: Exception) -> str:
    """Returns the line about a tracker that is switched off."""
    reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return f"warning: the tracker {name} is off ({reason[:300]}); the run goes on, its numbers are in metrics.jsonl"
