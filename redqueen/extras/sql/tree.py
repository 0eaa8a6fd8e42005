"""A query as a tree of Python, by which it is measured like any other program.

    SELECT name, count(*) FROM pets JOIN owners ON pet = name WHERE age > 3 GROUP BY name

is measured as a function that goes over the tables in one comprehension: what is joined is one more loop (a path of the
cyclomatic number, as are conditions), a query inside is a deeper one, and the names are those of tables and columns. It
is never run.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache

from redqueen.extras.sql.grammar import (
    Among,
    Call,
    Case,
    Cast,
    Core,
    Expression,
    Inner,
    Literal,
    Name,
    Operation,
    Query,
    parse,
)
from redqueen.extras.sql.tokens import QueryError
from redqueen.tasks.programs.normal_form import hashed

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


_SAID = frozenset({"function", "operator", "operators", "type", "join"})
"""Fields of the tree whose texts are no names."""


@lru_cache(maxsize=4096)
def shape(query: str) -> str:
    """Returns a hash of a query's shape; a text that is no query is identified by itself."""
    try:
        return hashed(_form(parse(query), {}))
    except QueryError:
        return hashed(query.strip())


def _form(part: object, names: dict[str, str]) -> str:
    """Returns a part of the tree as a text, in which each name is a number."""
    if isinstance(part, Literal):
        return type(part.value).__name__
    if isinstance(part, str):
        return names.setdefault(part, f"name{len(names)}") if part else ""
    if isinstance(part, tuple):
        return f"({', '.join(_form(each, names) for each in part)})"
    if not is_dataclass(part):
        # LIMIT, a truth value, or nothing.
        return "number" if type(part) is int else str(part)
    words: list[str] = []
    for each in fields(part):
        value = getattr(part, each.name)
        if isinstance(part, Core) and each.name == "columns":
            # An alias counts where it is used.
            value = tuple(column for column, _ in part.columns)
        words.append(str(value) if each.name in _SAID else _form(value, names))
    return f"{type(part).__name__}({', '.join(words)})"


_ARITHMETIC: dict[str, type[ast.operator]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "%": ast.Mod,
    "||": ast.Add,
}
_COMPARED: dict[str, type[ast.cmpop]] = {
    "=": ast.Eq,
    "!=": ast.NotEq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "like": ast.In,
}
_SETS: dict[str, type[ast.operator]] = {
    "union": ast.BitOr,
    "union all": ast.Add,
    "intersect": ast.BitAnd,
    "except": ast.Sub,
}


def tree_of(query: Query) -> ast.Module:
    """Returns a query as a module with one function."""
    module = ast.parse("def f():\n    return 0")
    (function,) = module.body
    if isinstance(function, ast.FunctionDef):
        named = [ast.Assign([_stored(name)], _query(inner)) for name, inner in query.named]
        function.body = [*named, ast.Return(_query(query))]
    return ast.fix_missing_locations(module)


def _query(query: Query) -> ast.expr:
    value: ast.expr = _core(query.first)
    for operator, core in zip(query.operators, query.cores[1:], strict=True):
        value = ast.BinOp(value, _SETS[operator](), _core(core))
    for term, descends in reversed(query.order):
        key = _expression(term)
        value = _call("sorted", [value, ast.UnaryOp(ast.USub(), key) if descends else key])
    if query.limit is not None:
        first = ast.Constant(query.offset) if query.offset else None
        value = ast.Subscript(value, ast.Slice(first, ast.Constant(query.offset + query.limit)), ast.Load())
    return value


def _core(core: Core) -> ast.expr:
    columns = [_expression(value) for value, _ in core.columns]
    if not core.sources:
        return ast.Tuple(columns, ast.Load())
    used = dict.fromkeys(_identifier(name) for name in _names(core) if name.column != "*")
    loops: list[ast.comprehension] = []
    for number, source in enumerate(core.sources):
        names = [source.alias or "rows", *([] if number else used)]
        of = _loaded(source.of) if isinstance(source.of, str) else _query(source.of)
        target = ast.Tuple([_stored(name) for name in names], ast.Store())
        on = [] if source.on is None else [_expression(source.on)]
        loops.append(ast.comprehension(target, _call("left", [of]) if source.join == "left" else of, on, 0))
    if core.where is not None:
        loops[-1].ifs.append(_expression(core.where))
    value: ast.expr = ast.ListComp(ast.Tuple(columns, ast.Load()), loops)
    if core.groups:
        value = _call("grouped", [value, *map(_expression, core.groups)])
    if core.having is not None:
        loop = ast.comprehension(_stored("group"), value, [_expression(core.having)], 0)
        value = ast.ListComp(_loaded("group"), [loop])
    return _call("set", [value]) if core.distinct else value


def _expression(expression: Expression) -> ast.expr:
    match expression:
        case Literal(value):
            return ast.Constant(value)
        case Name():
            return _loaded("row" if expression.column == "*" else _identifier(expression))
        case Call(function, arguments, distinct):
            parts = list(map(_expression, arguments))
            return _call(function, [_call("set", parts)] if distinct else parts)
        case Operation(operator, operands):
            return _operation(operator, list(map(_expression, operands)))
        case Case(cases, other):
            value = _expression(other)
            for condition, result in reversed(cases):
                value = ast.IfExp(_expression(condition), _expression(result), value)
            return value
        case Cast(value, kind):
            return _call(
                "float" if kind in ("real", "float") else "str" if kind == "text" else "int", [_expression(value)]
            )
        case Among(value, items):
            several = _query(items) if isinstance(items, Query) else ast.List(list(map(_expression, items)), ast.Load())
            return ast.Compare(_expression(value), [ast.In()], [several])
        case Inner(query, exists):
            return _call("any" if exists else "only", [_query(query)])


def _operation(operator: str, operands: list[ast.expr]) -> ast.expr:
    first, second = operands[0], operands[-1]
    match operator:
        case "and" | "or":
            return ast.BoolOp(ast.And() if operator == "and" else ast.Or(), operands)
        case "not" | "neg":
            return ast.UnaryOp(ast.Not() if operator == "not" else ast.USub(), first)
        case "isnull":
            return ast.Compare(first, [ast.Is()], [ast.Constant(None)])
        case _ if operator in _ARITHMETIC:
            return ast.BinOp(first, _ARITHMETIC[operator](), second)
        case _:
            return ast.Compare(first, [_COMPARED[operator]()], [second])


def _names(core: Core) -> Iterator[Name]:
    """Yields the columns that a SELECT names, without those of queries in it."""
    parts = [value for value, _ in core.columns]
    parts += [source.on for source in core.sources if source.on is not None]
    parts += [*core.groups, *(part for part in (core.where, core.having) if part is not None)]
    for part in parts:
        yield from (each for each in walk(part) if isinstance(each, Name))


def _identifier(name: Name) -> str:
    return f"{name.table}_{name.column}" if name.table else name.column


def _plain(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _stored(name: str) -> ast.Name:
    return ast.Name(_plain(name), ast.Store())


def _loaded(name: str) -> ast.Name:
    return ast.Name(_plain(name), ast.Load())


def _call(function: str, arguments: Sequence[ast.expr]) -> ast.expr:
    return ast.Call(_loaded(function), list(arguments), [])
