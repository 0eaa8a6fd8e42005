"""Values of a query: the text for SQLite, the type, and how large a number can be.

Each function here refuses what builds of SQLite may compute differently (`meaning.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from redqueen.extras.sql.grammar import Expression, Literal
from redqueen.extras.sql.tokens import QueryError

EXACT = 2**53
"""Whole numbers up to here are real numbers too."""
MOST_TEXT = 2_000
"""The length of a text that a function makes; SQLite refuses a longer one."""


@dataclass(frozen=True, slots=True)
class Value:
    """An expression for SQLite."""

    sql: str
    kind: str
    """`integer`, `real`, `text`, or `null` where nothing else is known."""
    bound: float
    """What its absolute value cannot exceed, if it is a number."""


def literal(value: float | str | None) -> Value:
    """Returns a constant for SQLite. Raises QueryError for a text that is not of printable ASCII."""
    if value is None:
        return Value("NULL", "null", 0)
    if isinstance(value, str):
        if not (value.isascii() and value.isprintable()) and value:
            raise QueryError("a text of other than printable ASCII characters")
        return Value("'" + value.replace("'", "''") + "'", "text", 0)
    # A minus of its own: `- -1` would begin a comment.
    return Value(f"({value!r})", "integer" if isinstance(value, int) else "real", abs(value))


def same(one: str, other: str) -> str:
    """Returns the kind of a value that is of either kind. Raises QueryError if there is none."""
    if "null" in (one, other):
        return other if one == "null" else one
    if one != other:
        raise QueryError(f"{one} and {other} in one place: use CAST")
    return one


def joined(sql: str, values: Sequence[Value]) -> Value:
    """Returns a value that is one of these. Raises QueryError if they have several kinds."""
    kind = "null"
    for value in values:
        kind = same(kind, value.kind)
    return Value(sql, kind, max(value.bound for value in values))


def need(values: Sequence[Value], *kinds: str) -> None:
    """Raises QueryError unless each value is of one of these kinds."""
    for value in values:
        if value.kind not in (*kinds, "null"):
            raise QueryError(f"{' or '.join(kinds)} is needed, not {value.kind}")


def comparable(one: Value, other: Value) -> None:
    """Raises QueryError if a text would be compared with a number."""
    kinds = {one.kind, other.kind} - {"null"}
    if len(kinds) == 2 and "text" in kinds:
        raise QueryError("a text is compared with a number")


def arithmetic(operator: str, sql: str, one: Value, other: Value) -> Value:
    """Returns the result of an operator on numbers. Raises QueryError."""
    need([one, other], "integer", "real")
    real = "real" in (one.kind, other.kind)
    if operator == "%":
        if real:
            raise QueryError("% is of whole numbers")
        return Value(sql, "integer", other.bound)
    if operator == "/":
        return Value(sql, "real" if real else "integer", float("inf") if real else one.bound)
    bound = one.bound * other.bound if operator == "*" else one.bound + other.bound
    return Value(sql, "real" if real else "integer", bound)


def call_of(name: str, values: list[Value], arguments: Sequence[Expression]) -> Value:
    """Returns the call of a plain function. Raises QueryError."""
    sql = f"{name}({', '.join(value.sql for value in values)})"
    least, most, kinds, gives = FUNCTIONS[name]
    if not least <= len(values) <= most:
        raise QueryError(f"{name} of {len(values)} arguments")
    if kinds is not None:
        for value, kind in zip(values, kinds, strict=False):
            need([value], *kind)
    if name == "round":
        digits = arguments[1] if len(arguments) > 1 else Literal(0)
        if not (isinstance(digits, Literal) and isinstance(digits.value, int) and 0 <= digits.value <= 6):
            raise QueryError("round needs a constant number of digits, 0 to 6")
        return Value(sql, "real", values[0].bound + 1)
    if gives == "text":
        return Value(sql, "text", 0)
    if gives == "length":
        return Value(sql, "integer", MOST_TEXT)
    if gives == "first":
        return replace(values[0], sql=sql)
    return joined(sql, values)


_NUMBER = ("integer", "real")
_TEXT = ("text",)
_WHOLE = ("integer",)
# Arguments at least and at most, their kinds (None: all of one kind), and what it gives.
FUNCTIONS: dict[str, tuple[int, int, tuple[tuple[str, ...], ...] | None, str]] = {
    "abs": (1, 1, (_NUMBER,), "first"),
    "length": (1, 1, (_TEXT,), "length"),
    "lower": (1, 1, (_TEXT,), "text"),
    "upper": (1, 1, (_TEXT,), "text"),
    "trim": (1, 1, (_TEXT,), "text"),
    "substr": (2, 3, (_TEXT, _WHOLE, _WHOLE), "text"),
    "replace": (3, 3, (_TEXT, _TEXT, _TEXT), "text"),
    "instr": (2, 2, (_TEXT, _TEXT), "length"),
    "round": (1, 2, (_NUMBER, _WHOLE), "real"),
    "coalesce": (2, 8, None, "one"),
    "ifnull": (2, 2, None, "one"),
    "nullif": (2, 2, None, "one"),
    "min": (2, 8, None, "one"),
    "max": (2, 8, None, "one"),
}
