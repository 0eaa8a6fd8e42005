"""Which of the fenced blocks in a text is the program: models show its use, its output and drafts beside it."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence

from redqueen.tasks.programs.fenced import Fenced, dedented

_MOST = 1 << 16
"""Longer texts are not parsed; the jail takes no longer program either."""


def defines(program: str, name: str) -> bool:
    """Returns whether a text defines a function, a class or a variable of that name."""
    word = re.escape(name)
    pattern = rf"^[ \t]*(?:(?:async[ \t]+)?(?:def|class)[ \t]+{word}\b|{word}[ \t]*(?::[^=\n]*)?=(?!=))"
    return re.search(pattern, program, re.MULTILINE) is not None


def chosen(blocks: Sequence[Fenced], names: Sequence[str] = ()) -> str | None:
    """Returns the program among the blocks of a text, None if there is no block.

    It is the last that is called Python, or nothing, and defines all `names`, or else one of them. Without names it is
    a script: the last that is called Python, or has no name and parses as a program.
    """
    programs = [block for block in blocks if block.name in ("python", "")]
    if names:
        for among in (programs, blocks):
            defining = _defining(among, names)
            if defining is not None:
                return dedented(defining.body)
    else:
        programs = [block for block in programs if _is_script(block)] or programs
    return dedented((programs or blocks)[-1].body) if blocks else None


def _defining(blocks: Sequence[Fenced], names: Sequence[str]) -> Fenced | None:
    """Returns the last block that defines all names, else the last that defines one, None if none does."""
    counts = [sum(1 for name in names if defines(block.body, name)) for block in blocks]
    for enough in (len(names), 1):
        for block, count in zip(reversed(blocks), reversed(counts), strict=True):
            if count >= enough:
                return block
    return None


def _is_script(block: Fenced) -> bool:
    """Whether a block seems to be a whole program, and not what one printed."""
    if block.name == "python":
        return not block.body.lstrip().startswith(">>>")
    body = dedented(block.body)
    if len(body) > _MOST:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    # `3` and `[1, 2]` parse too. A program that prints something calls something.
    return any(isinstance(node, ast.Call) for node in ast.walk(tree))
