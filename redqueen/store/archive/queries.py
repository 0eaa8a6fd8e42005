"""Narrow questions to an archive: one page of its proposals, one task, one member; sums, and searches of texts.

A long run has millions of attempts. Each question here reads the listing, which has no texts, an index
(`redqueen.store.archive`), and the few rows that are shown; never a whole table of texts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from redqueen.records import Kind
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import BANK, AttemptRow, MatchRow, StandingRow, written_by

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
    """Returns the matches that a member played, in either role, without its practice at fixed tasks."""
    met = "(teacher = ? OR student = ?) AND teacher != ? ORDER BY step, rowid"
    return archive.rows(MatchRow, met, [member, member, BANK])


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


# What many rows of an archive come to: who solved how much of whose tasks, who won, how good everybody is.
#
# SQLite adds up, so that a run of thousands of matches is not turned into as many objects.


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
    """How a member's fitness went, over the steps after whose games it was known; by default one that has no games."""

    games: int = 0
    """The number of games that it has been rated for."""
    first: float | None = None
    """Its fitness when that was first known after a game."""
    first_rated: int | None = None
    """The step at whose end `first` was known."""
    last: float | None = None
    """Its fitness at its death, or now."""


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
        "SELECT teacher, student, COALESCE(outcome, 'none'), COUNT(*) FROM matches WHERE teacher != ? "
        "GROUP BY teacher, student, outcome ORDER BY MIN(rowid)",
        [BANK],
    )
    games: dict[tuple[str, str], Counter[str]] = {}
    for teacher, student, outcome, number in rows:
        games.setdefault((teacher, student), Counter())[outcome] = number
    return games


def last_ratings(archive: ArchiveReader) -> dict[str, tuple[float, float]]:
    """Returns mu and sigma of everybody that played, after its last match."""
    # With MAX() SQLite takes the other columns from the row that has the largest value. A single agent plays both
    # roles of a match, and is rated once. Practice at fixed tasks is no game, and its rows say nothing of ratings.
    rows = archive.select(
        "SELECT teacher, teacher_mu, teacher_sigma, MAX(rowid) AS played FROM matches WHERE teacher != ? "
        "GROUP BY teacher UNION ALL SELECT student, student_mu, student_sigma, MAX(rowid) FROM matches "
        "WHERE teacher != ? GROUP BY student ORDER BY played",
        [BANK, BANK],
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


# Searches that must read texts: tasks and answers with a word in them, and the tasks that a task led to.
#
# No index knows what is in a text, so the steps are read one by one, the newest first, until enough is found or the
# time is up. The answer says how far it came, so that a reader can go on from there.

SECONDS = 0.2
"""The time that a search may take; the step that it is at is finished."""
Where = Literal["tasks", "answers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What was found, and which steps were read for it."""

    ids: tuple[str, ...]
    """Of proposals."""
    first: int
    """The first of the steps that were read."""
    last: int
    """The last of them."""
    complete: bool
    """Whether all steps were read that were asked for."""


def containing(
    archive: ArchiveReader,
    text: str,
    where: Where,
    wanted: TaskQuery,
    *,
    last: int,
    limit: int,
    seconds: float = SECONDS,
) -> SearchResult:
    """Returns those of the wanted proposals, up to the step `last`, whose texts contain `text`; the newest first.

    Capital letters of ASCII are as good as small ones. In "tasks" it looks at the program, its message and what the
    teacher wrote, in "answers" at what students wrote.
    """
    # `%`, `_` and the backslash mean themselves.
    pattern = "%" + "".join(f"\\{sign}" if sign in "%_\\" else sign for sign in text) + "%"
    first = max(1, wanted.first or 1)

    def hits(step: int) -> list[str]:
        chosen, values = listed(replace(wanted, first=step, last=step))
        if where == "answers":
            statement = (
                f"SELECT DISTINCT task FROM attempts WHERE step = ? AND task IN ({chosen}) "
                "AND text LIKE ? ESCAPE '\\' ORDER BY rowid DESC"
            )
            return _names(archive, statement, [step, *values, pattern])
        # The program of a task is a part of what was written, unless the teacher was given it.
        statement = (
            "SELECT p.id FROM proposals AS p LEFT JOIN tasks AS t ON t.id = p.id "
            f"WHERE p.step = ? AND p.id IN ({chosen}) "
            "AND (p.text LIKE ? ESCAPE '\\' OR t.program LIKE ? ESCAPE '\\' OR t.message LIKE ? ESCAPE '\\') "
            "ORDER BY p.rowid DESC"
        )
        return _names(archive, statement, [step, *values, *[pattern] * 3])

    newest = last if wanted.last is None else min(last, wanted.last)
    return _read(hits, range(newest, first - 1, -1), limit, seconds)


def led_to(
    archive: ArchiveReader, name: str, *, first: int, last: int, limit: int, seconds: float = SECONDS
) -> SearchResult:
    """Returns the proposals of these steps whose prompts showed the task `name`, the oldest first."""
    statement = "SELECT id FROM proposals WHERE step = ? AND instr(reference_ids, ?) > 0 ORDER BY rowid"
    # The ids are a list in JSON, so a whole name is one in quotes.
    return _read(lambda step: _names(archive, statement, [step, f'"{name}"']), range(first, last + 1), limit, seconds)


def _names(archive: ArchiveReader, statement: str, values: Sequence[object]) -> list[str]:
    return [row[0] for row in archive.select(statement, values)]


def _read(hits: Callable[[int], list[str]], steps: range, limit: int, seconds: float) -> SearchResult:
    """Returns the hits of these steps, as far as the time and the limit reach; a step that was begun is finished."""
    ids: list[str] = []
    end = time.monotonic() + seconds
    read = 0
    for step in steps:
        ids += hits(step)
        read += 1
        if len(ids) >= limit or time.monotonic() > end:
            break
    walked = steps[:read]
    return SearchResult(
        ids=tuple(ids), first=min(walked, default=0), last=max(walked, default=0), complete=read == len(steps)
    )
