"""What a program is made of, as sets of short words: the cells that a run's coverage counts.

Paths are those of Alon et al. (2018, "A General Path-Based Representation for Predicting Program Properties",
arXiv:1803.09544), cut to three nodes that lie one above the other, as in the vertical part of pq-grams (Augsten et al.
2005). Words are the same in every process and, but for new syntax, in every version of Python.
"""

from __future__ import annotations

import ast
import builtins
from base64 import urlsafe_b64encode
from functools import cache
from hashlib import blake2b

_LENGTH = 3
# Three bytes tell 16 million paths apart. A long run has some thousands, so that one pair in them may fall together.
_ID_BYTES = 3
_BUILTINS = frozenset(dir(builtins))


def paths_of(tree: ast.AST) -> frozenset[str]:
    """Returns the paths of three nodes from parent to child, each as a word of four letters (`path_id`).

    A node is its type; a constant is also the type of its value. Names, values and contexts do not count.
    """
    paths: set[str] = set()
    # Without recursion: a long sum is a deep tree.
    waiting: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while waiting:
        node, above = waiting.pop()
        path = (*above, _label(node))[-_LENGTH:]
        if len(path) == _LENGTH:
            paths.add(path_id(path))
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr_context):
                waiting.append((child, path))
    return frozenset(paths)


@cache
def path_id(path: tuple[str, ...]) -> str:
    """Returns the word for a path, e.g. for `("Return", "BinOp", "Add")`."""
    return urlsafe_b64encode(blake2b(">".join(path).encode(), digest_size=_ID_BYTES).digest()).decode()


def _label(node: ast.AST) -> str:
    name = type(node).__name__
    return f"{name}:{type(node.value).__name__}" if isinstance(node, ast.Constant) else name


def functions_of(tree: ast.AST) -> frozenset[str]:
    """Returns what a program uses of the library: builtins (`len`), modules' (`math.gcd`) and methods (`.append`).

    What the program defines under such a name itself does not count.
    """
    modules: dict[str, str] = {}
    imported: dict[str, str] = {}
    defined: set[str] = set()
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                modules[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
    used: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in defined:
            if node.id in imported:
                used.add(imported[node.id])
            elif node.id in _BUILTINS:
                used.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            used.add(f"{modules[node.value.id]}.{node.attr}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr not in defined:
            owner = node.func.value
            if not (isinstance(owner, ast.Name) and owner.id in modules):
                used.add(f".{node.func.attr}")
    return frozenset(used)
