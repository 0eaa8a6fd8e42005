"""The parts of an expression."""

from __future__ import annotations

from collections.abc import Iterator

from redqueen.extras.sql.grammar import Among, Call, Case, Cast, Expression, Operation

AGGREGATES = frozenset({"count", "sum", "avg", "min", "max", "total"})


def children(expression: Expression) -> Iterator[Expression]:
    """Yields the parts of an expression, without the queries in it."""
    match expression:
        case Call(_, arguments):
            yield from arguments
        case Operation(_, operands):
            yield from operands
        case Case(cases, other):
            for condition, value in cases:
                yield condition
                yield value
            yield other
        case Cast(value, _):
            yield value
        case Among(value, items):
            yield value
            if isinstance(items, tuple):
                yield from items
        case _:
            return


def walk(expression: Expression) -> Iterator[Expression]:
    """Yields an expression and all its parts, without the queries in it."""
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += children(each)


def has_aggregate(expression: Expression) -> bool:
    """Returns whether there is an aggregate in an expression, not counting those of queries in it."""
    return any(
        isinstance(each, Call)
        and each.function in AGGREGATES
        and (each.function not in ("min", "max") or len(each.arguments) == 1)
        for each in walk(expression)
    )
