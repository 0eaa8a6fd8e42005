"""The shape of a query: equal for queries that are alike up to names, constants, brackets and unused aliases."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import lru_cache

from redqueen.extras.sql.grammar import Core, Literal, parse
from redqueen.extras.sql.tokens import QueryError
from redqueen.tasks.programs.normal_form import hashed

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
