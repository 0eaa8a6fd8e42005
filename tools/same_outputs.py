"""Says whether a seed program computes what a reserved program computes, in whatever shape."""

from __future__ import annotations

import sys
from functools import cache
from types import FrameType
from typing import Any

from redqueen.records import Draft
from redqueen.tasks.python import reserved

MAX_EVENTS = 3000
"""A call that runs longer is given up: a program may not end on inputs that were not written for it."""


class _GivenUpError(Exception):
    pass


def same_as_reserved(draft: Draft) -> str | None:
    """Returns the message of a reserved program with the same outputs on all its inputs, or None."""
    function = _function(draft.program)
    kinds = _kinds(draft.inputs[-1])
    for message, other, calls in _reserved_calls():
        if other == kinds and all(_output(function, given) == output for given, output in calls):
            return message
    return None


@cache
def _reserved_calls() -> list[tuple[str, tuple[type, ...], list[tuple[str, str | None]]]]:
    found: list[tuple[str, tuple[type, ...], list[tuple[str, str | None]]]] = []
    for draft in reserved():
        function = _function(draft.program)
        # The last inputs first: the edge cases at the start tell programs apart less often.
        calls = [(given, _output(function, given)) for given in reversed(draft.inputs)]
        found.append((draft.message, _kinds(draft.inputs[-1]), calls))
    return found


def _function(program: str) -> Any:
    space: dict[str, Any] = {}
    exec(compile(program, "<seed>", "exec"), space)
    return space["f"]


def _arguments(given: str) -> tuple[Any, ...]:
    return eval(f"({given},)")


def _kinds(given: str) -> tuple[type, ...]:
    return tuple(type(value) for value in _arguments(given))


def _output(function: Any, given: str) -> str | None:
    """Returns the output as text, or None if the call raises or runs too long."""
    left = MAX_EVENTS

    def count(frame: FrameType, event: str, value: object) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise _GivenUpError
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        return repr(function(*_arguments(given)))
    except Exception:  # noqa: BLE001 - any error says that the programs differ
        return None
    finally:
        sys.settrace(before)
