"""The archive's tables, and the SQL that creates, fills and reads them: derived from the classes of its rows.

`str` is stored as TEXT, `int` and `bool` as INTEGER, `float` as REAL, and a tuple as a JSON list in TEXT. A column is
NOT NULL unless its type admits None.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from operator import attrgetter
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from redqueen.base.plain_files import parse_json
from redqueen.method.hall_of_fame import MemberName, check_name
from redqueen.store.archive.rows import (
    AttemptRow,
    ChampionRow,
    EvaluationRow,
    ListingRow,
    MatchRow,
    MeasureRow,
    MemberRow,
    ProbeRow,
    ProposalRow,
    ReplacementRow,
    Row,
    StandingRow,
    TallyRow,
    TaskRow,
)
from redqueen.store.directory import RunError

R = TypeVar("R", bound=Row)
LAYOUT = 5
"""Stored in each archive, and raised when the tables or the meaning of their columns change. 2: steps are counted from
1. 3: the table `measures`. 4: the tables `listing` and `tallies`. 5: the table `evaluations`."""
# SQLite has neither truth values nor lists: a bool is stored as 0 or 1, and a tuple as the text of a JSON list.
_SQL_TYPES = {str: "TEXT", int: "INTEGER", bool: "INTEGER", float: "REAL", tuple: "TEXT"}


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its name, the class of its rows, and the columns of its primary key, if it has one."""

    name: str
    row: type[Row]
    key: tuple[str, ...]
    references: Mapping[str, str] = field(default_factory=dict[str, str])
    """Which column holds the key of which table. SQLite does not enforce it here; it documents the file for readers."""
    indexes: tuple[tuple[str, ...], ...] = ()
    """Columns that are searched often."""


TABLES = (
    Table("members", MemberRow, key=("name",)),
    Table("matches", MatchRow, key=("id",)),
    Table("proposals", ProposalRow, key=("id",), references={"match": "matches (id)"}, indexes=(("step",),)),
    Table("tasks", TaskRow, key=("id",), references={"id": "proposals (id)"}),
    Table("attempts", AttemptRow, key=("task", "number"), references={"task": "proposals (id)"}, indexes=(("step",),)),
    Table("replacements", ReplacementRow, key=("child",)),
    Table("standings", StandingRow, key=("step", "member")),
    Table("champions", ChampionRow, key=("name",)),
    Table("probes", ProbeRow, key=("step", "member", "task")),
    Table("evaluations", EvaluationRow, key=("step", "member", "benchmark", "problem")),
    Table("measures", MeasureRow, key=("task",), references={"task": "tasks (id)"}, indexes=(("step",),)),
    # Searches scan the listing: its rows are short, and those of a match are neighbours.
    Table(
        "listing",
        ListingRow,
        key=(),
        references={"id": "proposals (id)", "match": "matches (id)"},
        indexes=(("match",),),
    ),
    Table("tallies", TallyRow, key=("match", "kind", "status"), references={"match": "matches (id)"}),
)
_TABLE_OF: dict[type[Row], Table] = {table.row: table for table in TABLES}
_OLD_COLUMNS = {"measures": {"lines_run", "line_events"}}
"""Columns that earlier versions wrote. Their archives are read and written without them: the columns may be null."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as its field's annotation says. `type` is str, int, bool, float or tuple."""

    name: str
    type: type
    nullable: bool
    of_members: bool
    """Whether it holds the name of a member or a champion, or several."""


@cache
def columns(row: type[Row]) -> tuple[Column, ...]:
    """Returns the columns of a table, in the order of the fields."""
    hints = get_type_hints(row)
    marked = get_type_hints(row, include_extras=True)
    of_members = (MemberName, tuple[MemberName, ...])
    return tuple(
        _column(attribute.name, hints[attribute.name], of_members=marked[attribute.name] in of_members)
        for attribute in fields(row)
    )


def _column(name: str, annotation: Any, *, of_members: bool) -> Column:
    # `float | None` has two options. Exactly one may be left without None: SQLite stores one type in a column.
    options = list(get_args(annotation)) if get_origin(annotation) is UnionType else [annotation]
    nullable = NoneType in options
    (value,) = [option for option in options if option is not NoneType]
    origin = get_origin(value)
    if origin is Literal:
        return Column(name, str, nullable, of_members)
    return Column(name, origin or value, nullable, of_members)


def create_statements() -> list[str]:
    """Returns the statements that make a new archive. They change nothing where the tables exist."""
    statements: list[str] = []
    for table in TABLES:
        clauses = [_definition(column, table) for column in columns(table.row)]
        if table.key:
            clauses.append(f"PRIMARY KEY ({', '.join(table.key)})")
        statements.append(f"CREATE TABLE IF NOT EXISTS {table.name} ({', '.join(clauses)})")
        for index in table.indexes:
            name = f"{table.name}_by_{index[0]}"
            statements.append(f"CREATE INDEX IF NOT EXISTS {name} ON {table.name} ({', '.join(index)})")
    return statements


def _definition(column: Column, table: Table) -> str:
    words = [column.name, _SQL_TYPES[column.type]]
    if not column.nullable:
        words.append("NOT NULL")
    if column.name in table.references:
        words.append(f"REFERENCES {table.references[column.name]}")
    return " ".join(words)


@cache
def insert_statement(row: type[Row]) -> str:
    """Returns `INSERT INTO members (name, ...) VALUES (?, ...)`; `values_of` gives the values."""
    names = [column.name for column in columns(row)]
    marks = ", ".join("?" for _ in names)
    return f"INSERT INTO {_TABLE_OF[row].name} ({', '.join(names)}) VALUES ({marks})"


@cache
def select_statement(row: type[Row]) -> str:
    """Returns `SELECT name, ... FROM members`, in the order that `row_of` takes."""
    names = ", ".join(column.name for column in columns(row))
    return f"SELECT {names} FROM {_TABLE_OF[row].name}"


def key_column(row: type[Row]) -> str:
    """Returns the column that tells the rows of a table apart, of a table that has one such column."""
    (column,) = _TABLE_OF[row].key
    return column


def values_of(row: Row) -> list[object]:
    """Returns a row's values as SQLite stores them."""
    values, lists = _parts(type(row))
    stored = list(values(row))
    for index in lists:
        stored[index] = json.dumps(stored[index])
    return stored


@cache
def _parts(row: type[Row]) -> tuple[attrgetter[tuple[object, ...]], tuple[int, ...]]:
    """Returns what gives all values of a row, in the order of the columns, and the places of the tuples."""
    # A step has a hundred thousand rows: what is the same for all rows of a table is worked out once.
    every = columns(row)
    return attrgetter(*(column.name for column in every)), tuple(
        index for index, column in enumerate(every) if column.type is tuple
    )


def row_of(row: type[R], values: Sequence[Any]) -> R:
    """Returns the row that was stored as `values`. Raises ValueError if no run stores such values.

    SQLite holds any type in any column, and a file may come from anywhere.
    """
    if (types := tuple(map(type, values))) not in _ADMITTED[row]:
        _check_types(row, types)
    by_name: dict[str, Any] = {}
    for column, value in zip(columns(row), values, strict=True):
        if column.type is tuple:
            by_name[column.name] = _tuples(parse_json(value))
        elif column.type is bool and value is not None:
            by_name[column.name] = bool(value)
        else:
            by_name[column.name] = value
        if column.of_members:
            names = by_name[column.name]
            for name in names if isinstance(names, tuple) else (names,):
                _check_name(str(name))
    return row(**by_name)


# The same few names are in hundreds of thousands of rows.
_check_name = lru_cache(4096)(check_name)
_ADMITTED: dict[type[Row], set[tuple[type, ...]]] = defaultdict(set)
"""The combinations of types that were found to be right for a row so far; there are few."""


def _check_types(row: type[Row], types: tuple[type, ...]) -> None:
    """Notes that rows may have values of these types. Raises ValueError if they may not."""
    stored = {bool: int, tuple: str}
    for column, actual in zip(columns(row), types, strict=True):
        if actual is not stored.get(column.type, column.type) and not (column.nullable and actual is NoneType):
            raise ValueError(f"{_TABLE_OF[row].name}.{column.name} holds {actual.__name__}")
    _ADMITTED[row].add(types)


def _tuples(value: Any) -> Any:
    # JSON knows only lists, but a row that was read must equal the row that was written, also where tuples are nested.
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def check_layout(connection: sqlite3.Connection, path: Path) -> None:
    """Raises RunError if the archive's tables are not exactly these: another version of Red Queen wrote it.

    A view or a virtual table with a table's name could compute for ever, and a generated column anything.
    """
    advice = "use that version, or start a new run"
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    if not path.stat().st_size:
        raise RunError(f"{path} is empty: put a copy of the file back, or start a new run")
    if layout != LAYOUT:
        if not layout and not connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
            raise RunError(f"{path} has no tables: copy {path.name}-wal too, which has the rows, or start a new run")
        raise RunError(f"{path} was written by another version of Red Queen (layout {layout}, not {LAYOUT}): {advice}")
    entries: dict[str, tuple[str, int]] = {
        name: (kind, root) for name, kind, root in connection.execute("SELECT name, type, rootpage FROM sqlite_master")
    }
    for name, (kind, _) in entries.items():
        if kind not in ("table", "index"):
            raise RunError(f"{path} has a {kind} ('{name}'), which no run makes: use an unchanged copy")
    for table in TABLES:
        if table.name in entries and not (entries[table.name][0] == "table" and entries[table.name][1]):
            raise RunError(f"{path} has something else than a table in place of '{table.name}': nothing can be read")
        # The second item of each row of `table_info` is the column's name. A table that is missing has no rows.
        # Its last one says whether the column is an ordinary one.
        names = {info[1] for info in connection.execute(f"PRAGMA table_xinfo({table.name})") if not info[-1]}
        if names - _OLD_COLUMNS.get(table.name, set()) != {column.name for column in columns(table.row)}:
            raise RunError(
                f"{path} was written by another version of Red Queen (its table '{table.name}' differs): {advice}"
            )
