"""Takes the answer out of a model's text: a program, or what its last box holds."""

from __future__ import annotations

import re

# A fence opens at the start of a line, perhaps indented, with an optional name of a language.
_BLOCK = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*")


def code_answer(text: str, name: str = "") -> str:
    r"""Returns the program in a text: the last fenced block that defines `name`, or else the last one, or all of it.

    >>> code_answer("Here it is:\n```python\ndef f(x):\n    return x\n```\nIt works.")
    'def f(x):\n    return x\n'
    """
    blocks: list[str] = _BLOCK.findall(text)
    if not blocks:
        return text
    defines = re.compile(rf"^\s*(?:def|class)\s+{re.escape(name)}\b", re.MULTILINE)
    defining = [block for block in blocks if name and defines.search(block)]
    return (defining or blocks)[-1]


def last_boxed(text: str) -> str | None:
    r"""Returns what the last `\boxed{...}` of a text holds, or None if there is no whole one.

    >>> last_boxed(r"So \boxed{1}, no: \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    for box in reversed(list(_BOX.finditer(text))):
        start = box.end()
        if start == len(text):
            continue
        # `\boxed 2` is TeX for `\boxed{2}`.
        if text[start] != "{":
            word = re.match(r"[^\s$.,]+", text[start:])
            if word and text[box.end() - 1].isspace():
                return word.group()
            continue
        inner = braced(text, start)
        if inner is not None:
            return inner.strip()
    return None


def braced(text: str, start: int) -> str | None:
    """Returns what stands between the brace at `start` and the one that closes it; None if none does."""
    depth = 0
    escaped = False
    for at in range(start, len(text)):
        letter = text[at]
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : at]
    return None
