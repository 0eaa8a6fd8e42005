"""The columns of an exported file: name, type and meaning, as `TaskRecord` declares them."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from redqueen.store.dataset.rows import TaskRecord

ColumnType = Literal["string", "int64", "double", "bool", "list<string>"]
_TYPES: dict[Any, ColumnType] = {str: "string", int: "int64", float: "double", bool: "bool", tuple: "list<string>"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataColumn:
    """One column."""

    name: str
    type: ColumnType
    """Its type as Arrow calls it."""
    nullable: bool
    """Whether a row may have no value here."""
    text: str
    """What it means."""


@cache
def columns() -> tuple[DataColumn, ...]:
    """Returns the columns of an exported file, in order."""
    hints = get_type_hints(TaskRecord)
    texts = _docstrings(TaskRecord)
    return tuple(_column(name, hint, texts[name]) for name, hint in hints.items())


def column_table() -> str:
    """Returns the columns as a table in Markdown."""
    lines = ["| column | type | meaning |", "|---|---|---|"]
    for column in columns():
        # As code: a page would take `<string>` for a tag.
        kind = f"`{column.type}` or null" if column.nullable else f"`{column.type}`"
        lines.append(f"| `{column.name}` | {kind} | {column.text} |")
    return "\n".join(lines)


def _column(name: str, hint: Any, text: str) -> DataColumn:
    # `float | None`, a Literal of texts, a tuple of texts, or a plain type.
    options = [option for option in get_args(hint) if option is not NoneType]
    nullable = NoneType in get_args(hint)
    kind = options[0] if nullable else hint
    if get_origin(kind) is Literal:
        kind = str
    return DataColumn(name=name, type=_TYPES[get_origin(kind) or kind], nullable=nullable, text=text)


def _docstrings(record: type) -> dict[str, str]:
    """Returns the text below each field of a class, in one line. Python itself does not keep it."""
    tree = ast.parse(inspect.getsource(record)).body[0]
    texts: dict[str, str] = {}
    name = ""
    for node in tree.body if isinstance(tree, ast.ClassDef) else ():
        match node:
            case ast.AnnAssign(target=ast.Name(id=field)):
                name = field
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                texts[name] = " ".join(text.split())
            case _:
                name = ""
    return texts
