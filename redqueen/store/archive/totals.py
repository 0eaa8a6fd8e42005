"""What many rows of an archive come to: who solved how much of whose tasks, who won, how good everybody is.

SQLite adds up, so that a run of thousands of matches is not turned into as many objects.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from redqueen.records import Kind
from redqueen.store.archive.reader import ArchiveReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a teacher and a student did in all their matches, of one kind of tasks."""

    teacher: str
    student: str
    kind: Kind
    tasks: int
    """Tasks with a solve rate."""
    rho: float
    """Their mean solve rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Career:
    """How a member's fitness went, over the steps after whose games it was known."""

    games: int = 0
    """The number of games that it has been rated for."""
    first: float | None = None
    """Its fitness when that was first known after a game."""
    first_rated: int | None = None
    """The step at whose end `first` was known."""
    last: float | None = None
    """Its fitness at its death, or now."""


UNRATED = Career()
"""The career of a member that has not stood in the league yet."""


def cells(archive: ArchiveReader) -> list[Cell]:
    """Returns who solved how much of whose tasks, by kind, in the order in which the pairs first met."""
    rows = archive.select(
        "SELECT teacher, student, kind, SUM(rated), SUM(rho_sum) / SUM(rated) "
        "FROM tallies JOIN matches ON matches.id = tallies.match WHERE rated > 0 "
        "GROUP BY teacher, student, kind ORDER BY MIN(tallies.rowid)"
    )
    return [
        Cell(teacher=teacher, student=student, kind=kind, tasks=tasks, rho=rho)
        for teacher, student, kind, tasks, rho in rows
    ]


def outcomes(archive: ArchiveReader) -> dict[tuple[str, str], Counter[str]]:
    """Returns how the matches of each teacher with each student ended; "none" counts those that were no game."""
    rows = archive.select(
        "SELECT teacher, student, COALESCE(outcome, 'none'), COUNT(*) FROM matches "
        "GROUP BY teacher, student, outcome ORDER BY MIN(rowid)"
    )
    games: dict[tuple[str, str], Counter[str]] = {}
    for teacher, student, outcome, number in rows:
        games.setdefault((teacher, student), Counter())[outcome] = number
    return games


def last_ratings(archive: ArchiveReader) -> dict[str, tuple[float, float]]:
    """Returns mu and sigma of everybody that played, after its last match."""
    # With MAX() SQLite takes the other columns from the row that has the largest value. A single agent plays both
    # roles of a match, and is rated once.
    rows = archive.select(
        "SELECT teacher, teacher_mu, teacher_sigma, MAX(rowid) AS played FROM matches GROUP BY teacher "
        "UNION ALL SELECT student, student_mu, student_sigma, MAX(rowid) FROM matches GROUP BY student ORDER BY played"
    )
    return {name: (mu, sigma) for name, mu, sigma, _ in rows}


def careers(archive: ArchiveReader) -> dict[str, Career]:
    """Returns how everybody's fitness went that stood in the league after a step."""
    # With MIN() and MAX() SQLite takes the other columns from the row that has the smallest or largest value. The
    # held-out fitness is measured every few steps, so it may be known only some games after the first.
    games = archive.select("SELECT member, games, MAX(step) FROM standings GROUP BY member")
    rated = "FROM standings WHERE games > 0 AND fitness IS NOT NULL GROUP BY member"
    first = {row[0]: row[1:] for row in archive.select(f"SELECT member, fitness, MIN(step) {rated}")}
    last = {row[0]: row[1] for row in archive.select(f"SELECT member, fitness, MAX(step) {rated}")}
    by_member: dict[str, Career] = {}
    for name, number, _ in games:
        fitness, step = first.get(name, (None, None))
        by_member[name] = Career(games=number, first=fitness, first_rated=step, last=last.get(name))
    return by_member


def last_standing(archive: ArchiveReader) -> int:
    """Returns the last step after which the members' standings were written, 0 before the first."""
    ((step,),) = archive.select("SELECT COALESCE(MAX(step), 0) FROM standings")
    return int(step)
