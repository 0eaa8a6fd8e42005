"""What makes a task new: a program of a shape, or a message, that was not there before.

A task with another name or constant in a known program is worth playing, but it is no new idea. So novelty is measured
up to names and constants, for each kind on its own.
"""

from __future__ import annotations

import re
from functools import cache

from redqueen.game.seeds import seeds
from redqueen.programs.normal_form import shape
from redqueen.records import Kind, Task

_WORD = re.compile(r"\w+")


def idea(task: Task) -> str:
    """Returns what the author of the task thought of, as a text to compare.

    For code_o and code_i it is the program's shape. For code_f, whose program was given, it is the message without case
    and punctuation.
    """
    if task.kind == "code_f":
        return _words(task.message)
    return shape(task.program)


@cache
def seed_ideas(kind: Kind) -> frozenset[str]:
    """Returns the ideas of all seed programs, whether a run plants them or not: the warm start has seen them all."""
    if kind == "code_f":
        return frozenset(_words(draft.message) for draft in seeds())
    return frozenset(shape(draft.program) for draft in seeds())


def _words(message: str) -> str:
    return " ".join(_WORD.findall(message.lower()))
