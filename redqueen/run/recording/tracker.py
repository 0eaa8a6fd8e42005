"""What all trackers share, and how a run opens its trackers and its own recorders.

A tracker is sent the numbers of a step and some of its tasks. A failure of one is a line and not the end of a run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from redqueen import extras, plugins
from redqueen.base.optional import is_installed, missing
from redqueen.method.played_step import PlayedStep, ScoredPosed, ScoredProposal
from redqueen.records import Task
from redqueen.run.recording.recorder import Recorder, Session, StepRecord
from redqueen.store.metrics import numbers

NAME = "samples"
"""What the table is called in every library."""
MOST = 16
"""Rows of one table. They are spread over the step's matches."""
Row = Mapping[str, str | float | None]
"""A valid task with its attempts; all rows have the same names, in one order (docs/extras/TRACKERS.md)."""


def sampled(played: PlayedStep) -> list[Row]:
    """Returns up to `MOST` valid tasks of a step, evenly spread, in the step's order."""
    valid: list[tuple[str, ScoredProposal | ScoredPosed, Task]] = []
    for scored in played.proposals:
        if scored.proposed.task is not None:
            valid.append((scored.proposed.student, scored, scored.proposed.task))
    valid += [(scored.posed.student, scored, scored.posed.task) for scored in played.posed]
    count = min(MOST, len(valid))
    return [_row(*valid[number * len(valid) // count]) for number in range(count)]


def _row(student: str, scored: ScoredProposal | ScoredPosed, task: Task) -> Row:
    texts = [
        f"{attempt.attempted.verdict.status}, paid {attempt.reward}:\n{attempt.attempted.rollout.completion.text}"
        for attempt in scored.attempts
    ]
    return {
        "id": task.id,
        "kind": task.kind,
        "author": task.author,
        "student": student,
        "solve_rate": scored.solve_rate,
        "teacher_reward": scored.reward if isinstance(scored, ScoredProposal) else None,
        "program": task.program,
        "message": task.message,
        "inputs": "\n".join(pair.input for pair in task.pairs),
        "outputs": "\n".join(pair.output for pair in task.pairs),
        "attempts": "\n\n".join(texts),
    }


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


TRACKERS = tuple(extras.OFFERS["tracker"])
"""The names of ours."""


def check_trackers(names: Sequence[str]) -> None:
    """Raises, before anything is loaded or written, if a tracker cannot be opened.

    MissingLibraryError if its library is not installed, PluginError if an own one lacks a method.
    """
    # The library and its extra have the tracker's name. What a plugin needs, it has imported.
    for name in names:
        if name in TRACKERS:
            extras.require("tracker", name)
            if not is_installed(name):
                raise missing(name, name, f"run.trackers={name}")
        elif lacking := sorted(getattr(plugins.find("tracker", name), "__abstractmethods__", ())):
            raise plugins.PluginError(f"the tracker '{name}' has no {' and no '.join(lacking)}: write what it does")


def open_recorders(session: Session) -> list[Recorder]:
    """Returns the recorders of the run's plugins. Whatever goes wrong in one is an error of the run."""
    return [plugins.find("recorder", name)(session) for name in session.config.run.recorders]


def open_trackers(session: Session) -> list[Tracker]:
    """Returns the trackers that could be opened, and remembers what their libraries know the run by.

    `session.say` gets a line about each: how to look at it, or why it is off.
    """
    ids = session.directory.tracker_ids()
    opened: list[Tracker] = []
    for name in session.config.run.trackers:
        opener: Callable[[Session], Tracker] = (extras if name in TRACKERS else plugins).find("tracker", name)
        try:
            tracker = opener(replace(session, id=ids.get(name)))
        # No login, no network, a full disk, another version: whatever it is, the run can do without.
        except Exception as error:  # noqa: BLE001
            session.say(failure(name, error))
            continue
        session.say(f"{name}: {tracker.where}" if tracker.where else f"{name} is on")
        opened.append(tracker)
        if tracker.id is not None:
            ids[name] = tracker.id
    if ids:
        session.directory.set_tracker_ids(ids)
    return opened
