"""What is told about a run, and to whom: metrics.jsonl, the archive and the terminal are all recorders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from redqueen.evolution import Game, Replacement, Standing
from redqueen.league.hall_of_fame import Champion
from redqueen.league.rating import Rating
from redqueen.records import Attempted, Kind, MemberUpdate
from redqueen.self_play import PlayedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """Everything that one step leaves to record, made once at its end."""

    kinds: tuple[Kind, ...]
    """The kinds of tasks that the run has."""
    played: PlayedStep
    updates: tuple[MemberUpdate, ...]
    games: tuple[Game, ...]
    """One for each match, in order."""
    ratings: Mapping[str, Rating]
    """Of everyone who may have played, after the games and before the births."""
    held_out: tuple[Attempted, ...]
    """The attempts at the held-out tasks; empty in a step that has none."""
    standings: tuple[Standing, ...]
    """The members that played, after the games and before the births."""
    champions: tuple[Champion, ...]
    """Those who entered the hall of fame."""
    births: tuple[Replacement, ...]
    population: tuple[Standing, ...]
    """The members that play the next step."""
    hall_of_fame: tuple[str, ...]
    """The names of all champions."""
    task_bank_size: int
    seconds: Mapping[str, float]
    """Wall time by phase, and `total`."""

    @property
    def step(self) -> int:
        """Counted from 0."""
        return self.played.step


class Recorder(Protocol):
    """Hears of a run while it goes on. A class that derives from this one implements what it needs."""

    def phase(self, step: int, name: str) -> None:
        """A phase begins: `match`, `propose`, `solve`, `learn` or `evolve`."""

    def progress(self, done: int, total: int) -> None:
        """The phase has done `done` of `total` parts."""

    def record(self, record: StepRecord) -> None:
        """A step has ended."""

    def close(self) -> None:
        """The run has ended, or has failed."""
