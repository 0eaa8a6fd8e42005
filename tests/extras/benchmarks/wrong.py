"""Programs that are wrong on purpose, made for any problem of HumanEval+ and MBPP+."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from redqueen.extras.benchmarks.evalplus import reference

# It stands behind the canonical solution and changes each value that it returns, by as little as the type allows.
_OFF_BY_ONE = """
def _changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float, complex)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return value + [0]
    if isinstance(value, tuple):
        return value + (0,)
    if isinstance(value, (set, frozenset)):
        return value ^ {0}
    if isinstance(value, dict):
        return {**value, "x": 0}
    return 0 if value is None else None

_right = NAME

def NAME(*arguments):
    return _changed(_right(*arguments))
"""


def empty_body(row: Mapping[str, Any]) -> str:
    """Returns nothing, whatever the arguments are."""
    return f"def {row['entry_point']}(*arguments):\n    pass\n"


def constant(row: Mapping[str, Any]) -> str:
    """Returns the right answer to the first input, whatever the arguments are."""
    return reference(row) + (
        f"\n_right = {row['entry_point']}(*{row['base_input'][0]!r})\n"
        f"def {row['entry_point']}(*arguments):\n    return _right\n"
    )


def off_by_one(row: Mapping[str, Any]) -> str:
    """Returns the right answer, changed a little."""
    return reference(row) + _OFF_BY_ONE.replace("NAME", row["entry_point"])


WRONG: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "empty body": empty_body,
    "constant": constant,
    "off by one": off_by_one,
}
