"""The task browser: one page of proposals, filtered and sorted, and what the filters can be set to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar, cast, get_args

from redqueen.errors import UserError
from redqueen.extras.page.live_run import LiveRun
from redqueen.records import Status
from redqueen.store.archive import queries, search
from redqueen.store.archive.queries import Sort, TaskQuery
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.search import Where
from redqueen.tasks.kinds import names

V = TypeVar("V")
PAGE = 50
"""Tasks on one page."""
_STATUSES = (
    "valid",
    "refused",
    *(status for status in get_args(Status) if status not in ("valid", "correct", "wrong")),
)


class TaskQueryError(UserError):
    """A query string that asks for nothing that can be; the message says which part."""


def browse(run: LiveRun, query: Mapping[str, str]) -> dict[str, object]:
    """Returns a page of tasks, and the names that the filters offer. Raises QueryError if `query` is wrong."""
    kinds = _kinds(run)
    with run.archive() as archive:
        listing = _search(archive, run, query, kinds) if query.get("text") else _page(archive, query, kinds)
        members = archive.members()
    return {
        **listing,
        "teachers": [row.name for row in members if row.role != "student"],
        "students": [row.name for row in members if row.role != "teacher"],
        "statuses": _STATUSES,
        "kinds": kinds,
    }


def _kinds(run: LiveRun) -> tuple[str, ...]:
    """Returns the kinds that tasks can be of: those that are known here, and those of the run."""
    return tuple(dict.fromkeys((*names(), *run.config().game.kinds)))


def _page(archive: ArchiveReader, query: Mapping[str, str], kinds: tuple[str, ...]) -> dict[str, object]:
    """Returns a page of the tasks that the filters ask for."""
    wanted = read_filter(query, kinds)
    sort, descending = _sort(query.get("sort") or "-step")
    page = _number(query, "page", int, low=1) or 1
    total = queries.count(archive, wanted)
    lines = queries.find(archive, wanted, sort, descending=descending, limit=PAGE, offset=(page - 1) * PAGE)
    pages = max(1, -(-total // PAGE))
    return {"tasks": [asdict(line) for line in lines], "total": total, "page": page, "pages": pages}


def _search(
    archive: ArchiveReader, run: LiveRun, query: Mapping[str, str], kinds: tuple[str, ...]
) -> dict[str, object]:
    """Returns the newest of these tasks that have a text, and how far back was looked for it."""
    where: Where = "answers" if _choice(query, "in", get_args(Where)) == "answers" else "tasks"
    newest = run.newest()
    last = _number(query, "before", int, low=1) or (newest["step"] if newest else 0)
    found = search.containing(archive, query["text"], where, read_filter(query, kinds), last=last, limit=PAGE)
    return {
        "tasks": [asdict(line) for line in queries.lines_of(archive, found.ids)],
        "searched": {"first": found.first, "last": found.last, "complete": found.complete},
        "total": len(found.ids),
        "page": 1,
        "pages": 1,
    }


def read_filter(query: Mapping[str, str], kinds: tuple[str, ...]) -> TaskQuery:
    """Returns the filter that a query string asks for: `kind=NAME&status=refused&from=3&to=9&least=0.5&novel=1`."""
    status = _choice(query, "status", ("any", *_STATUSES)) or "valid"
    novel = _choice(query, "novel", ("0", "1"))
    return TaskQuery(
        kind=_choice(query, "kind", kinds),
        teacher=query.get("teacher") or None,
        student=query.get("student") or None,
        first=_number(query, "from", int),
        last=_number(query, "to", int),
        status=None if status == "any" else status,
        least=_number(query, "least", float),
        most=_number(query, "most", float),
        nodes=_number(query, "nodes", int),
        novel=None if novel is None else novel == "1",
    )


def _sort(text: str) -> tuple[Sort, bool]:
    """Returns what `-rho` sorts by, and whether the largest comes first."""
    name = text.removeprefix("-")
    if name not in get_args(Sort):
        raise TaskQueryError(f"sort={text}: choose one of {', '.join(get_args(Sort))}, with - for the largest first")
    return cast(Sort, name), text.startswith("-")


def _choice(query: Mapping[str, str], name: str, values: tuple[str, ...]) -> str | None:
    text = query.get(name) or None
    if text is not None and text not in values:
        raise TaskQueryError(f"{name}={text}: choose one of {', '.join(values)}")
    return text


def _number(query: Mapping[str, str], name: str, kind: Callable[[str], Any], low: float | None = None) -> Any:
    text = query.get(name) or None
    if text is None:
        return None
    try:
        value = kind(text)
    except ValueError:
        raise TaskQueryError(f"{name}={text} is no number") from None
    # SQLite takes no whole number of more than 64 bits.
    if not -(2**53) <= value <= 2**53 or (low is not None and value < low):
        raise TaskQueryError(f"{name}={text} is out of range")
    return value
