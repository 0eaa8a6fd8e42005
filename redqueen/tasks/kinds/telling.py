"""Whether the text of a task holds its answer, so that a student may copy what it should find out.

It looks at letters only: a text that it finds may be there by accident, as `even` is in a program that returns it or
`odd`, and an answer that is written in another way is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LEAST = 3
"""A shorter text stands in nearly every program."""
_LEAST_OF_LINE = 8
"""A shorter line of a program, such as `else:`, may stand in a sentence."""
# A definition, or `return` and what no sentence has behind it.
_CODE = re.compile(
    r"\bdef \w+\(|\blambda\b[^:\n]*:|\breturn (?:\w+\s*(?:[-+*/%<>=\[(]|\.\w|$)|[\[({'\"-])", re.MULTILINE
)


def holds(text: str, answer: str, given: str) -> bool:
    """Returns whether an answer's literal stands in a text as a word of its own, and not in what is given anyway."""
    told = answer.strip("'\"")
    if len(told) < LEAST or told in given:
        return False
    return re.search(rf"(?<!\w){re.escape(told)}(?!\w)", text) is not None


def holds_code(message: str, program: str) -> bool:
    """Returns whether a message has code in it, or a line of the program that it speaks of."""
    return _CODE.search(message) is not None or any(line in message for line in _lines(program))


def _lines(program: str) -> Iterable[str]:
    lines = [line.strip() for line in program.strip().split("\n")]
    least = LEAST if len(lines) == 1 else _LEAST_OF_LINE
    return [line for line in lines if len(line) >= least]
