"""Narrow questions to an archive: one page of its proposals, one task, one member, the matrix of matches.

A run of 200 steps has more than a million attempts. Each question here reads an index (`redqueen.runs.archive.schema`)
and the few rows that are shown, and never a whole table of texts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from redqueen.records import Kind
from redqueen.runs.archive.reader import ArchiveReader
from redqueen.runs.archive.rows import AttemptRow, MatchRow, ProposalRow, StandingRow, TaskRow

Sort = Literal["step", "rho", "reward", "tokens"]
"""What proposals can be sorted by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which proposals are asked for. A field of None asks for all."""

    kind: Kind | None = None
    teacher: str | None = None
    """Who wrote it."""
    student: str | None = None
    """Who was matched with the teacher."""
    first: int | None = None
    """The first step."""
    last: int | None = None
    """The last step."""
    status: str | None = "valid"
    """A verdict; "refused" is every verdict but "valid"."""
    least: float | None = None
    """The least solve rate. A refused proposal has none, so it is left out."""
    most: float | None = None
    """The largest solve rate."""
    novel: bool | None = None
    """Whether its idea was new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A proposal as a list shows it."""

    id: str
    step: int
    kind: Kind
    teacher: str
    student: str
    status: str
    reward: float | None
    rho: float | None
    novel: bool | None
    tokens: int
    text: str
    """The program of a valid task, else what the teacher wrote."""
    message: str


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


_SORTS: dict[Sort, str] = {"step": "p.step", "rho": "t.rho", "reward": "p.reward", "tokens": "p.tokens"}
_COLUMNS = (
    "p.id, p.step, p.kind, p.teacher, m.student, p.status, p.reward, t.rho, t.novel, p.tokens, "
    "COALESCE(t.program, p.text), COALESCE(t.message, '')"
)
_FROM = "proposals AS p JOIN matches AS m ON m.id = p.match LEFT JOIN tasks AS t ON t.id = p.id"


def count(archive: ArchiveReader, wanted: Filter) -> int:
    """Returns how many proposals there are of this kind."""
    where, values = _where(wanted)
    ((number,),) = archive.select(f"SELECT COUNT(*) FROM {_FROM} WHERE {where}", values)
    return int(number)


def find(
    archive: ArchiveReader, wanted: Filter, sort: Sort, *, descending: bool, limit: int, offset: int
) -> list[Line]:
    """Returns one page of proposals. Those without the number that is sorted by come last."""
    where, values = _where(wanted)
    way = "DESC" if descending else "ASC"
    order = f"{_SORTS[sort]} {way} NULLS LAST, p.rowid {way}"
    rows = archive.select(
        f"SELECT {_COLUMNS} FROM {_FROM} WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?", [*values, limit, offset]
    )
    return [_line(row) for row in rows]


def _line(row: tuple[Any, ...]) -> Line:
    names = [field.name for field in fields(Line)]
    values: dict[str, Any] = dict(zip(names, row, strict=True))
    # SQLite stores a truth value as 0 or 1, and nothing for a refused proposal.
    if values["novel"] is not None:
        values["novel"] = bool(values["novel"])
    return Line(**values)


def proposal(archive: ArchiveReader, name: str) -> ProposalRow | None:
    """Returns the proposal of this id."""
    return archive.first(ProposalRow, "id = ?", [name])


def task(archive: ArchiveReader, name: str) -> TaskRow | None:
    """Returns the valid task of this id; None also for a proposal that was refused."""
    return archive.first(TaskRow, "id = ?", [name])


def match(archive: ArchiveReader, name: str) -> MatchRow | None:
    """Returns the match of this id."""
    return archive.first(MatchRow, "id = ?", [name])


def attempts_at(archive: ArchiveReader, name: str) -> list[AttemptRow]:
    """Returns the attempts at a task, in the order of their numbers."""
    return archive.rows(AttemptRow, "task = ? ORDER BY number", [name])


def existing(archive: ArchiveReader, names: tuple[str, ...]) -> set[str]:
    """Returns those of `names` that are proposals of the run; seed programs are not."""
    marks = ", ".join("?" for _ in names)
    return {row[0] for row in archive.select(f"SELECT id FROM proposals WHERE id IN ({marks})", names)}


def standings_of(archive: ArchiveReader, member: str) -> list[StandingRow]:
    """Returns where a member stood after each step of its life."""
    return archive.rows(StandingRow, "member = ? ORDER BY step", [member])


def matches_of(archive: ArchiveReader, member: str) -> list[MatchRow]:
    """Returns the matches that a member played, in either role."""
    return archive.rows(MatchRow, "teacher = ? OR student = ? ORDER BY step, rowid", [member, member])


def cells(archive: ArchiveReader) -> list[Cell]:
    """Returns who solved how much of whose tasks, by kind."""
    rows = archive.select(
        "SELECT m.teacher, m.student, t.kind, COUNT(*), AVG(t.rho) FROM tasks AS t "
        "JOIN proposals AS p ON p.id = t.id JOIN matches AS m ON m.id = p.match "
        "WHERE t.rho IS NOT NULL GROUP BY m.teacher, m.student, t.kind",
        [],
    )
    return [Cell(teacher=row[0], student=row[1], kind=row[2], tasks=row[3], rho=row[4]) for row in rows]


def _where(wanted: Filter) -> tuple[str, list[object]]:
    """Returns the condition of a filter, and its values."""
    parts: list[str] = ["1"]
    values: list[object] = []
    simple: tuple[tuple[str, object], ...] = (
        ("p.kind = ?", wanted.kind),
        ("p.teacher = ?", wanted.teacher),
        ("m.student = ?", wanted.student),
        ("p.step >= ?", wanted.first),
        ("p.step <= ?", wanted.last),
        ("t.rho >= ?", wanted.least),
        ("t.rho <= ?", wanted.most),
        ("t.novel = ?", wanted.novel),
    )
    for condition, value in simple:
        if value is not None:
            parts.append(condition)
            values.append(value)
    if wanted.status == "refused":
        parts.append("p.status != 'valid'")
    elif wanted.status is not None:
        parts.append("p.status = ?")
        values.append(wanted.status)
    return " AND ".join(parts), values
