"""Searches that must read texts: tasks and answers with a word in them, and the tasks that a task led to.

No index knows what is in a text, so the steps are read one by one, the newest first, until enough is found or the time
is up. The answer says how far it came, so that a reader can go on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from redqueen.store.archive.queries import TaskQuery, listed
from redqueen.store.archive.reader import ArchiveReader

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
