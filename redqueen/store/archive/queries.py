"""Narrow questions to an archive: one page of its proposals, one task, one member.

A long run has millions of attempts. Each question here reads the listing, which has no texts, an index
(`redqueen.store.archive.schema`), and the few rows that are shown; never a whole table of texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from redqueen.records import Kind
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import AttemptRow, MatchRow, StandingRow, written_by

Sort = Literal["step", "rho", "reward", "tokens", "nodes", "lines", "depth"]
"""What proposals can be sorted by: the step, or a column of the listing. The last three are of the reached program of a
valid task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Which proposals are asked for. A field of None asks for all."""

    kind: Kind | None = None
    teacher: str | None = None
    """Who wrote it."""
    student: str | None = None
    """Who was matched with the teacher."""
    first: int | None = None
    last: int | None = None
    """The first and the last step."""
    status: str | None = "valid"
    """A verdict; "refused" is every verdict but "valid"."""
    least: float | None = None
    """The least solve rate. A refused proposal has none, so it is left out."""
    most: float | None = None
    """The largest solve rate."""
    novel: bool | None = None
    nodes: int | None = None
    """The least number of AST nodes of the reached program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A proposal as a list shows it."""

    id: str
    step: int
    kind: Kind
    author: str
    """The teacher; of a fixed task, what it is: "yours", "a seed"."""
    student: str
    status: str
    reward: float | None
    rho: float | None
    novel: bool | None
    nodes: int | None
    """AST nodes of the reached program; None of a refused proposal."""
    tokens: int
    text: str
    """The program of a valid task, else what the teacher wrote."""
    message: str


_COLUMNS = (
    "p.id, p.step, p.kind, COALESCE(t.author, p.teacher), m.student, p.status, p.reward, t.rho, t.novel, "
    "c.reached_nodes, p.tokens, COALESCE(t.program, p.text), COALESCE(t.message, '')"
)


def count(archive: ArchiveReader, wanted: TaskQuery) -> int:
    """Returns how many proposals there are of this kind."""
    numbers = _numbers(wanted)
    common = _common(wanted, numbers)
    if numbers.parts:
        statement = f"SELECT COUNT(*) FROM listing WHERE {numbers} AND {common}"
    else:
        statement = f"SELECT COALESCE(SUM(proposals), 0) FROM tallies WHERE {common}"
    ((number,),) = archive.select(statement, [*numbers.values, *common.values])
    return int(number)


def find(
    archive: ArchiveReader, wanted: TaskQuery, sort: Sort, *, descending: bool, limit: int, offset: int
) -> list[Line]:
    """Returns one page of proposals. Those without the number that is sorted by come last."""
    statement, values = listed(wanted)
    way = "DESC" if descending else "ASC"
    # Rows are written step by step, so the order of writing is the order of steps.
    order = f"rowid {way}" if sort == "step" else f"{sort} {way} NULLS LAST, rowid {way}"
    # The texts are read for the page only.
    page = archive.select(f"{statement} ORDER BY {order} LIMIT ? OFFSET ?", [*values, limit, offset])
    return lines_of(archive, [row[0] for row in page])


def listed(wanted: TaskQuery) -> tuple[str, list[object]]:
    """Returns the statement that selects the ids of these proposals, and the values of its marks."""
    numbers = _numbers(wanted)
    common = _common(wanted, numbers)
    return f"SELECT id FROM listing WHERE {numbers} AND {common}", [*numbers.values, *common.values]


def lines_of(archive: ArchiveReader, chosen: Sequence[str]) -> list[Line]:
    """Returns these proposals, in this order."""
    if not chosen:
        return []
    marks = ", ".join("?" for _ in chosen)
    rows = archive.select(
        f"SELECT {_COLUMNS} FROM proposals AS p JOIN matches AS m ON m.id = p.match "
        f"LEFT JOIN tasks AS t ON t.id = p.id LEFT JOIN measures AS c ON c.task = p.id WHERE p.id IN ({marks})",
        chosen,
    )
    by_id = {row[0]: row for row in rows}
    return [_line(by_id[name]) for name in chosen]


def _line(row: tuple[Any, ...]) -> Line:
    names = [column.name for column in fields(Line)]
    values: dict[str, Any] = dict(zip(names, row, strict=True))
    values["author"] = written_by(values["author"])
    # SQLite stores a truth value as 0 or 1, and nothing for a refused proposal.
    if values["novel"] is not None:
        values["novel"] = bool(values["novel"])
    return Line(**values)


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


def _common(wanted: TaskQuery, numbers: _Conditions) -> _Conditions:
    """Returns the conditions on what both the listing and the tallies have, next to those on numbers."""
    where = _Conditions()
    where.add("kind = ?", wanted.kind)
    if wanted.status == "refused":
        where.parts.append("status != 'valid'")
    elif wanted.status != "valid" or not numbers.parts:
        # Only a valid task has these numbers, so that a comparison can be saved in millions of rows.
        where.add("status = ?", wanted.status)
    # Who played whom and when is known from the matches, of which there are few.
    matches = _Conditions()
    matches.add("teacher = ?", wanted.teacher)
    matches.add("student = ?", wanted.student)
    matches.add("step >= ?", wanted.first)
    matches.add("step <= ?", wanted.last)
    if matches.parts:
        where.parts.append(f"match IN (SELECT id FROM matches WHERE {matches})")
        where.values += matches.values
    return where


def _numbers(wanted: TaskQuery) -> _Conditions:
    """Returns the conditions on what only the listing has."""
    where = _Conditions()
    where.add("nodes >= ?", wanted.nodes)
    where.add("rho >= ?", wanted.least)
    where.add("rho <= ?", wanted.most)
    where.add("novel = ?", wanted.novel)
    return where


@dataclass(slots=True)
class _Conditions:
    """Conditions of SQL that must all hold, with the values of their marks."""

    parts: list[str] = field(default_factory=list[str])
    values: list[object] = field(default_factory=list[object])

    def add(self, condition: str, value: object) -> None:
        """Adds a condition, unless its value is None: then it asks for nothing."""
        if value is not None:
            self.parts.append(condition)
            self.values.append(value)

    def __str__(self) -> str:
        return " AND ".join(self.parts) or "1"
