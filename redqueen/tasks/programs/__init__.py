"""Programs as trees: parsed with a clear error, and walked however deep they are."""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

# The sandbox accepts sums of up to three thousand terms, which are as many levels deep, and walking a level takes up to
# five calls. Calls of Python functions by Python functions do not use the stack of the process, so this is safe.
_DEEP = 20_000
# The parser counts in levels of its own, three for each of Python's, and uses the stack of the process for them.
_DEEP_TEXT = 2500


class ProgramError(ValueError):
    """A text that is no program. A valid task never is one."""


def parse(program: str) -> ast.Module:
    """Returns the tree of a program. Raises ProgramError if it does not parse."""
    try:
        # The sandbox parses with few calls on its stack. What it accepted must not be too deep here.
        with _limit(_DEEP_TEXT):
            return ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProgramError(f"no program that can be measured: {type(error).__name__}: {error}") from error


def room_for_depth() -> AbstractContextManager[None]:
    """Lets recursive walks go as deep as a program that the sandbox accepted can be nested."""
    return _limit(_DEEP)


@contextmanager
def _limit(depth: int) -> Generator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, depth))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def text_of(tree: ast.AST) -> str:
    """Returns the program in one layout: without comments, one statement a line.

    The few that Python cannot write out come without their constants: this is for measures, not for running.
    """
    with room_for_depth():
        try:
            return ast.unparse(tree)
        except ValueError:
            # Python cannot write an int of thousands of digits, nor in 3.11 some texts within an f-string's braces.
            return ast.unparse(_Emptied().visit(copy.deepcopy(tree)))


class _Emptied(ast.NodeTransformer):
    """Puts the smallest value of its type in each constant's place."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        emptied = isinstance(node.value, str | bytes | int) and not isinstance(node.value, bool)
        return ast.Constant(type(node.value)()) if emptied else node
