"""Databases and results as literal texts, and more databases like given ones.

A database is a dict of tables. A table is a list of rows, of which the first has the names of the columns:
`{'t': [('a', 'b'), (1, 'x'), (2, None)]}`. A result is a list of rows where their order means nothing, and a tuple of
rows where the query orders them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, cast

from redqueen.extras.sql.grammar import OUTSIDE
from redqueen.extras.sql.tokens import KEYWORDS
from redqueen.jail import LiteralError, OversizeError, parse_arguments, parse_literal, to_literal

MOST_TABLES = 4
MOST_COLUMNS = 8
MOST_ROWS = 40
MOST_NUMBER = 10**9
MOST_CHARACTERS = 40
"""The length of a text in a table."""
DIGITS = 4
"""The decimals of a real number in a result."""

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,30}", re.ASCII)
_TAKEN = frozenset({"rowid", "oid", "_rowid_"})
_NULLS = 0.15

Cell = int | float | str | None
Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The names of its columns, and its rows."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def kinds(self) -> list[tuple[str, float]]:
        """Returns of each column what its values are (`null`: nothing else), and their largest absolute value."""
        kinds: list[tuple[str, float]] = []
        for index in range(len(self.columns)):
            values = [row[index] for row in self.rows if row[index] is not None]
            if all(isinstance(value, int) for value in values):
                kinds.append(("integer" if values else "null", max((abs(cast(int, v)) for v in values), default=0)))
            else:
                kinds.append(("text", 0))
        return kinds


@dataclass(frozen=True, slots=True)
class Database:
    """Tables by their names."""

    tables: dict[str, Table]

    @property
    def schema(self) -> str:
        """The tables with their columns: `t(a, b), u(a)`."""
        return ", ".join(f"{name}({', '.join(table.columns)})" for name, table in self.tables.items())

    def value(self) -> dict[str, list[Row]]:
        """Returns the value that its text is the literal of."""
        return {name: [table.columns, *table.rows] for name, table in self.tables.items()}

    def text(self) -> str:
        return to_literal(self.value())


@lru_cache(maxsize=1024)
def read_database(text: str) -> Database:
    """Reads a database. Raises LiteralError or OversizeError."""
    arguments = parse_arguments(text)
    if len(arguments) != 1 or type(arguments[0]) is not dict or not arguments[0]:
        raise LiteralError("a database is one dict of tables, e.g. {'t': [('a', 'b'), (1, 'x')]}")
    tables = cast("dict[Any, Any]", arguments[0])
    if len(tables) > MOST_TABLES:
        raise OversizeError(f"more than {MOST_TABLES} tables")
    return Database({_name(name): _table(rows) for name, rows in tables.items()})


def _name(name: object) -> str:
    if type(name) is not str or not _NAME.fullmatch(name):
        raise LiteralError("a name has small letters, digits and _")
    if name in KEYWORDS or name in OUTSIDE or name in _TAKEN or name.startswith("sqlite"):
        raise LiteralError(f"{name} is a word of SQL")
    return name


def _table(value: object) -> Table:
    rows = list(_rows(value))
    if not rows or not rows[0]:
        raise LiteralError("a table begins with the names of its columns")
    columns = tuple(map(_name, rows[0]))
    if len(set(columns)) != len(columns):
        raise LiteralError("a column is there twice")
    if len(columns) > MOST_COLUMNS or len(rows) > MOST_ROWS + 1:
        raise OversizeError(f"a table has at most {MOST_COLUMNS} columns and {MOST_ROWS} rows")
    for row in rows[1:]:
        if len(row) != len(columns):
            raise LiteralError(f"a row of {len(row)} values for {len(columns)} columns")
        for cell in row:
            _check_cell(cell)
    for index in range(len(columns)):
        if len({type(row[index]) for row in rows[1:]} - {type(None)}) > 1:
            raise LiteralError(f"the column {columns[index]} has numbers and texts")
    return Table(columns, tuple(rows[1:]))


def _rows(value: object) -> Iterator[Row]:
    if type(value) is not list and type(value) is not tuple:
        raise LiteralError("rows are a list of tuples")
    for row in cast("Sequence[object]", value):
        if type(row) is not tuple and type(row) is not list:
            raise LiteralError("a row is a tuple")
        yield tuple(cast("Sequence[Cell]", row))


def _check_cell(cell: object) -> None:
    if cell is None:
        return
    if type(cell) is int:
        if abs(cell) > MOST_NUMBER:
            raise OversizeError(f"a number beyond {MOST_NUMBER}")
    elif type(cell) is not str:
        raise LiteralError("a value is a whole number, a text or None")
    elif len(cell) > MOST_CHARACTERS:
        raise OversizeError(f"a text of more than {MOST_CHARACTERS} characters")
    elif cell and not (cell.isascii() and cell.isprintable()):
        raise LiteralError("a text has printable ASCII characters only")


def read_rows(text: str) -> list[Row] | tuple[Row, ...]:
    """Reads a result: a list of rows, written in one of their orders, or a tuple of rows whose order counts.

    Raises LiteralError or OversizeError.
    """
    rows = written_rows(text)
    return rows if type(parse_literal(text)) is tuple else in_order(rows)


def written_rows(text: str) -> tuple[Row, ...]:
    """Reads the rows of a result in the order in which they are written, whatever the outer brackets are."""
    rows = tuple(tuple(_rounded(cell) for cell in row) for row in _rows(parse_literal(text)))
    if len({len(row) for row in rows}) > 1:
        raise LiteralError("the rows have different numbers of values")
    return rows


def _rounded(cell: object) -> Cell:
    if cell is None or type(cell) is int or type(cell) is str:
        return cell
    if type(cell) is not float or cell - cell != 0:
        raise LiteralError("a value is a number, a text or None")
    return round(cell, DIGITS) + 0.0


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows of a bag in the order in which they are written: NULL, numbers, texts."""
    return sorted(rows, key=lambda row: [_rank(cell) for cell in row])


def _rank(cell: Cell) -> tuple[int, float | str, bool]:
    if cell is None:
        return 0, 0, False
    # Of two equal numbers the whole one comes first.
    return (2, cell, False) if isinstance(cell, str) else (1, cell, isinstance(cell, float))


def more_databases(databases: Sequence[Database], constants: Iterable[Cell], count: int, seed: str) -> list[Database]:
    """Returns databases with the tables of given ones and other rows, drawn from their values and these constants.

    Columns of one name have the same values, so that joins find partners. Equal arguments give equal databases.
    """
    rng = random.Random(seed)
    pools = _pools(databases, list(constants))
    made: list[Database] = []
    for number in range(count):
        tables: dict[str, Table] = {}
        for name, table in databases[0].tables.items():
            # Some have empty tables: queries differ there.
            rows = rng.randint(0 if number % 4 == 3 else 2, 6)
            drawn = [tuple(_drawn(pools[column], rng) for column in table.columns) for _ in range(rows)]
            tables[name] = Table(table.columns, tuple(drawn))
        made.append(Database(tables))
    return made


def _drawn(pool: Sequence[Cell], rng: random.Random) -> Cell:
    return None if rng.random() < _NULLS else rng.choice(pool)


def _near(value: Cell) -> tuple[Cell, ...]:
    """Returns a value, if it can stand in a table, and others that a query may take for it."""
    if isinstance(value, int):
        return tuple(near for near in (value, value - 1, value + 1) if abs(near) <= MOST_NUMBER)
    # Patterns of LIKE match what begins, ends or goes on otherwise.
    text = str(value).strip("%")[: MOST_CHARACTERS - 1]
    return text, f"{text}q", f"q{text}"


def _pools(databases: Sequence[Database], constants: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Returns the values that each column may get."""
    pools: dict[str, dict[Cell, None]] = {}
    for database in databases:
        for table in database.tables.values():
            for index, column in enumerate(table.columns):
                pool = pools.setdefault(column, {})
                pool.update((row[index], None) for row in table.rows if row[index] is not None)
    drawn: dict[str, list[Cell]] = {}
    for column, pool in pools.items():
        text = any(isinstance(value, str) for value in pool)
        seen = [*pool, *(value for value in constants if isinstance(value, str) == text)]
        near = [_near(value) for value in seen] if seen else [(0, 1, 2)]
        drawn[column] = list(dict.fromkeys([*pool, *chain.from_iterable(near)]))
    return drawn
