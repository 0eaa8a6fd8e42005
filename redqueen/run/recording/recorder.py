"""The record of a step and the protocol of those who receive it: metrics.jsonl, the archive and the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from redqueen.config import Config
from redqueen.engine.work import Work
from redqueen.evals.answers import HeldOutAnswer
from redqueen.method.hall_of_fame import Champion
from redqueen.method.played_step import PlayedStep
from redqueen.method.rating import Rating
from redqueen.method.results import Game, Replacement, Standing
from redqueen.records import Attempted, Kind, MemberUpdate
from redqueen.run.recording.measures import StepMeasures
from redqueen.store.directory import RunDirectory


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
        flat: dict[str, object] = {}
        for section, values in self.config.model_dump(mode="json").items():
            if isinstance(values, Mapping):
                flat |= {f"{section}.{key}": value for key, value in values.items()}
            else:
                flat[section] = values
        return flat
