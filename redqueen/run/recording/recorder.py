"""The record of a step and the protocol of those who receive it, and what all trackers share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from redqueen import extras, plugins
from redqueen.base.optional import is_installed, missing
from redqueen.config import Config
from redqueen.config.keys import flat
from redqueen.engine.work import Work
from redqueen.evals.held_out import HeldOutAnswer
from redqueen.method.hall_of_fame import Champion
from redqueen.method.played_step import PlayedStep, ScoredPosed, ScoredProposal
from redqueen.method.rating import Rating
from redqueen.method.results import Game, Replacement, Standing
from redqueen.records import Attempted, Kind, MemberUpdate, Task
from redqueen.run.recording.measures import StepMeasures
from redqueen.store.directory import RunDirectory
from redqueen.store.metrics import numbers


# A recorder never looks at the trainer. Populations and task banks change while a step goes on, so what a recorder
# needs of them is copied into the record at the moment that the field's text names.
@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """Everything that one step leaves to record, made once at its end."""

    kinds: tuple[Kind, ...]
    played: PlayedStep
    updates: tuple[MemberUpdate, ...]
    games: tuple[Game, ...]
    """One for each match, in order."""
    par: Mapping[Kind, float]
    """What the games were judged by; a kind that was never solved has none."""
    ratings: Mapping[str, Rating]
    """The ratings of all members and champions, after the games and before the births."""
    held_out: tuple[Attempted, ...]
    """The attempts at the held-out tasks; empty in a step that has none."""
    standings: tuple[Standing, ...]
    """The members that played, after the games and before the births."""
    champions: tuple[Champion, ...]
    """The champions that entered the hall of fame."""
    births: tuple[Replacement, ...]
    population: tuple[Standing, ...]
    """The members that play the next step."""
    hall_of_fame: tuple[str, ...]
    """The names of all champions."""
    task_bank_size: int
    measures: StepMeasures
    """What the step's valid tasks are like."""
    with_work: bool = False
    """Whether the prompts' format has work before an answer."""
    true_work: Mapping[str, str] = field(default_factory=dict)
    """The work of the tasks that have one right answer, by their ids, as far as an attempt at them has work."""
    seconds: Mapping[str, float]
    """Wall time by phase, and `total`."""
    work: Mapping[str, Work] = field(default_factory=dict[str, Work])
    """What the policy computed, by phase; `propose` and `solve` together are `play`."""
    answers: tuple[HeldOutAnswer, ...] = ()
    """The living students' answers to the problems of `evals.benchmarks`; empty in a step that evaluates nothing."""
    start: tuple[HeldOutAnswer, ...] = ()
    """In a step that evaluates, the answers of the adapter that members started from."""
    asked: str = ""
    """What tells the problems of these answers from those of other runs."""

    @property
    def step(self) -> int:
        """Counted from 1."""
        return self.played.step


class Recorder(Protocol):
    """Receives what happens in a run. A class that derives from this one implements the methods that it needs."""

    # The bodies are empty on purpose: a recorder that ignores an event inherits a method that does nothing.

    def phase(self, step: int, name: str) -> None:
        """Is called when a phase begins: `match`, `propose`, `solve`, `learn`, `evolve` or `evaluate`."""

    def progress(self, done: int, total: int) -> None:
        """Is called when the phase has done `done` of `total` parts."""

    def record(self, record: StepRecord) -> None:
        """Is called when a step has ended."""

    def close(self) -> None:
        """Is called when the run has ended or failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a recorder that the configuration names is opened with: a new run, or one that is resumed."""

    directory: RunDirectory
    config: Config
    first: int
    """The first step that will be recorded."""
    say: Callable[[str], None]
    """Tells a person a line."""
    id: str | None = None
    """What a tracker's library knew the run by in its last session; None if it does not know it."""

    @property
    def name(self) -> str:
        """The last two parts of the run's path: the runs of a sweep are called seed-0, seed-1, ... in each cell."""
        path = self.directory.path.resolve()
        return f"{path.parent.name}/{path.name}"

    def settings(self) -> dict[str, object]:
        """Returns the configuration as flat names and plain values."""
        return dict(flat(self.config.model_dump(mode="json")))


# What all trackers share, and how a run opens its trackers and its own recorders.
#
# A tracker is sent the numbers of a step and some of its tasks. A failure of one is a line and not the end of a run.

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
        opener: Callable[[Session], object] = (extras if name in TRACKERS else plugins).find("tracker", name)
        try:
            tracker = opener(replace(session, id=ids.get(name)))
            if not isinstance(tracker, Tracker):
                raise TypeError(f"it gave {tracker!r}, which is no Tracker")
            if not hasattr(tracker, "directory"):
                raise TypeError("its __init__ does not call super().__init__(session)")
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
