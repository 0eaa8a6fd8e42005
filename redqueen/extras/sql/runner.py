"""Asks SQLite, inside the jail: the program of every job. It has no rules about the language.

`meaning.py` has written the query; this is the second wall. Tables are made in memory, then an authorizer lets nothing
pass but reading them and plain functions. Memory, steps, rows and lengths are bounded. The query runs twice, the second
time on rows that are stored and scanned the other way round: where that shows, there is no answer.

A child gets this text without types and docstrings (`language.py`), which would cost it time. The name `str` is left
out too: beside classes the jail takes it for a way to show an address, and runs such programs seven times.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any

Row = tuple[Any, ...]

CHECK_EVERY = 1000
"""Steps of SQLite's virtual machine after which they are counted."""
MOST_ROWS = 1000
DIGITS = 4
READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)
TEXT = type("")  # noqa: UP003
REAL = type(0.0)  # noqa: UP003
FUNCTIONS = (
    "count", "sum", "avg", "min", "max", "total", "abs", "length", "lower", "upper", "trim", "substr", "replace",
    "instr", "coalesce", "ifnull", "nullif", "round", "like",
)  # fmt: skip
BOUNDS = (
    (sqlite3.SQLITE_LIMIT_LENGTH, 2000),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 20000),
    (sqlite3.SQLITE_LIMIT_COLUMN, 64),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 400),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 16),
    (sqlite3.SQLITE_LIMIT_VDBE_OP, 50000),
    (sqlite3.SQLITE_LIMIT_FUNCTION_ARG, 16),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100),
    (sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 16),
    (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)


class NoQuery(Exception):  # noqa: N818
    """Another statement than SELECT."""


class TooManySteps(Exception):  # noqa: N818 - its name is what people read
    """More steps than an answer may take."""


class TooManyRows(Exception):  # noqa: N818 - its name is what people read
    """More rows than an answer may have."""


class Undecided(Exception):  # noqa: N818
    """Rows that tie, or that depend on how they are stored."""


class BetweenTwoResults(Exception):  # noqa: N818 - its name is what people read
    """`round` of a number that is as good as a half."""


class NotFinite(Exception):  # noqa: N818 - its name is what people read
    """An infinite number."""


def f(
    sql: str,
    tables: dict[str, list[Row]],
    width: int,
    keys: Sequence[int],
    first: int,
    count: int | None,
    bag: bool,
    loose: bool,
    steps: int,
) -> Sequence[Row] | None:
    """The rows of a query: a tuple in its order, or a list where that means nothing.

    `bag` asks for a list in any case. Where nothing decides which rows they are, `loose` asks for None.
    """
    forward = answer(asked(opened(tables, 1), sql, steps), width, keys, first, count, bag)
    backward = answer(asked(opened(tables, -1), sql, steps), width, keys, first, count, bag)
    if forward is not None and forward == backward:
        return forward
    if loose:
        return None
    raise Undecided


def answer(
    rows: list[Row], width: int, keys: Sequence[int], first: int, count: int | None, bag: bool
) -> Sequence[Row] | None:
    """What a query's rows are as an answer: so many columns of some of them."""
    shown = [tuple([plain(value) for value in row[:width]]) for row in rows]
    last = len(rows) if count is None else min(len(rows), first + count)
    if keys and not decided(rows, shown, keys, first, last, bag):
        return None
    return sorted(shown[first:last], key=rank) if bag or not keys else tuple(shown[first:last])


def opened(tables: dict[str, list[Row]], step: int) -> Connection:
    """The tables in memory, behind the limits and the authorizer."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for setting in ("hard_heap_limit = 16777216", "temp_store = MEMORY", "case_sensitive_like = OFF"):
        connection.execute("PRAGMA " + setting)
    if step < 0:
        connection.execute("PRAGMA reverse_unordered_selects = ON")
    for name in tables:
        rows = tables[name]
        columns = ['"' + column + '"' for column in rows[0]]
        connection.execute('CREATE TABLE "' + name + '" (' + ", ".join(columns) + ")")
        places = ", ".join(["?"] * len(columns))
        connection.executemany('INSERT INTO "' + name + '" VALUES (' + places + ")", rows[1:][::step])
    connection.create_function("round", 1, rounded, deterministic=True)
    connection.create_function("round", 2, rounded, deterministic=True)
    for limit, most in BOUNDS:
        connection.setlimit(limit, most)

    def allowed(action: int, table: str | None, column: str | None, _database: str | None, within: str | None) -> int:
        if action not in READS or within is not None:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_READ and table not in tables:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION and column not in FUNCTIONS:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    connection.set_authorizer(allowed)
    return connection


def asked(connection: Connection, sql: str, steps: int) -> list[Row]:
    """The rows that a query gives."""
    # EXPLAIN asks for no right, and shows how a build of SQLite works.
    if not sql.startswith("SELECT "):
        raise NoQuery
    left = [steps // CHECK_EVERY]

    def more() -> bool:
        left[0] -= 1
        return left[0] < 0

    connection.set_progress_handler(more, CHECK_EVERY)
    try:
        rows = connection.execute(sql).fetchmany(MOST_ROWS + 1)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname == "SQLITE_INTERRUPT":
            raise TooManySteps from None
        raise
    if len(rows) > MOST_ROWS:
        raise TooManyRows
    return rows


def decided(rows: list[Row], shown: list[Row], keys: Sequence[int], first: int, last: int, bag: bool) -> bool:
    """Whether no rows of the result tie with other ones; in a bag they may, if all of them are in it."""
    start = 0
    while start < last:
        end = start + 1
        while end < len(rows) and all(rows[end][key] == rows[start][key] for key in keys):
            end += 1
        inside = bag and start >= first and end <= last
        if end > first and not inside and any(row != shown[start] for row in shown[start:end]):
            return False
        start = end
    return True


def plain(value: Any) -> Any:
    """A value as it is shown: real numbers have four decimals, and no zero has a sign."""
    if type(value) is not REAL:
        return value
    if value * 0 != 0:
        raise NotFinite
    return round(value, DIGITS) + 0.0


def rank(row: Row) -> list[tuple[int, Any, bool]]:
    """The order in which a bag is written: NULL, numbers, texts; of two equal numbers the whole one first."""
    ranks: list[tuple[int, Any, bool]] = []
    for value in row:
        if value is None:
            ranks.append((0, 0, False))
        elif type(value) is TEXT:
            ranks.append((2, value, False))
        else:
            ranks.append((1, value, type(value) is REAL))
    return ranks


def rounded(value: float | None, digits: int | None = 0) -> float | None:
    """`round` of SQLite, exact, half away from zero. What is as good as a half, builds round as they like: an error."""
    if value is None or digits is None:
        return None
    above, below = abs(value).as_integer_ratio()
    whole, rest = divmod(2 * above * 10**digits + below, 2 * below)
    if rest and (rest * 10**9 < 2 * below or (2 * below - rest) * 10**9 < 2 * below):
        raise BetweenTwoResults
    result = whole / 10**digits
    return result * -1 if value < 0 else result
