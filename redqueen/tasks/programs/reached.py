"""A program without what can never run, so that its size says how much it computes and not how much was written.

In a pilot a third of the growth of a single agent's programs was code that nothing reaches. What is taken out is what
can be seen in the text alone: statements after `return`, `raise`, `break` or `continue`, branches on constants,
definitions and imports that nothing uses, constants assigned to names that nothing reads, docstrings and `pass`. The
program that is left gives the same outputs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from redqueen.tasks.programs.constant_branches import Branches
from redqueen.tasks.programs.trees import parse, room_for_depth, text_of
from redqueen.tasks.programs.unused import Unused, Used

# A program that asks for its own names or text could tell the difference, so nothing of it is taken out.
_ASKING_NAMES = frozenset({"locals", "vars", "dir", "globals", "eval", "exec", "__doc__", "__annotations__"})
_HARMLESS_ATTRIBUTES = frozenset({"__init__", "__name__", "__class__", "__len__", "__add__", "__main__", "__iter__"})


def reached(program: str) -> str:
    r"""Returns the program without what can never run, in one layout. Raises ProgramError if it does not parse.

    >>> reached("def f(x):\n    return x + 1\n    x = 3\n    return x")
    'def f(x):\n    return x + 1'
    """
    return text_of(reached_tree(parse(program)))


def reached_tree(tree: ast.Module) -> ast.Module:
    """Returns the tree of a program without what can never run. The tree itself is changed."""
    with room_for_depth():
        if _asks_about_itself(tree):
            return tree
        # What is taken out may leave other parts without a use. Each round but the last makes the tree smaller.
        changed = True
        while changed:
            branches = Branches()
            tree = branches.visit(tree)
            unused = Unused(Used(tree))
            tree = unused.visit(tree)
            changed = branches.changed or unused.changed
        return tree


def _asks_about_itself(tree: ast.Module) -> bool:
    return any(name in _ASKING_NAMES or _is_telling(name) for name in _spoken(tree))


def _spoken(tree: ast.Module) -> Iterator[str]:
    """The names, attributes and whole strings of a program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _is_telling(name: str) -> bool:
    """Whether a name like `__globals__` or `__code__` may show a program to itself."""
    return name.startswith("__") and name.endswith("__") and name not in _HARMLESS_ATTRIBUTES
