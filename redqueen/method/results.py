"""What a step leaves of the league: its games, where members stood, and who was replaced by whose child."""

from __future__ import annotations

from dataclasses import dataclass

from redqueen.method.matchmaking import Match
from redqueen.method.population import Member
from redqueen.method.rating import GameResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """A match that was played, and who won it."""

    match: Match
    score: float | None
    """The mean over the match's tasks of solve rate minus par, in [-1, 1]; None if no task has a solve rate."""
    outcome: GameResult | None
    """Who won; None if there was no game, and no rating moved: a fault of the machine left nothing to judge, or the
    single agent played itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A member with its fitness at one moment."""

    member: Member
    fitness: float | None
    """None where it is not known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """One birth, with the fitness of victim and parents at that moment (None: not known yet)."""

    victim: str
    child: str
    parents: tuple[str, ...]
    operator: str
    victim_fitness: float | None
    victim_age: int
    """The steps that the victim lived."""
    victim_games: int
    tie: bool
    """Whether a member that stayed had the victim's fitness: then mean reward or a draw chose between them."""
    parent_fitness: tuple[float | None, ...]
    distance: float | None
    """The child's distance from the nearest living member of its role; None where `evolution.min_distance` is 0."""
    tries: int
    """How many children were drawn for it."""
