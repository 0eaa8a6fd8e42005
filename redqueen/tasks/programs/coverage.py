"""How many different cells the tasks of a run have reached, made comparable between runs of different lengths."""

from __future__ import annotations

import ast
import builtins
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
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


LEVELS = (10, 100, 1000, 10_000)
"""The numbers of tasks to which counts are rarefied."""
NODES = (1000, 10_000, 100_000)
"""The numbers of nodes of programs to which counts are rarefied: the same for tasks of any length."""
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """What has been covered so far. Cells that seeds have count in `cells` and `rarefied`, in the others not."""

    tasks: int
    cells: int
    beyond_seeds: int
    rarefied: dict[str, float]
    """The expected cells in so many tasks, drawn at random from all; levels with more tasks than there are are left
    out."""
    rarefied_beyond_seeds: dict[str, float]
    rarefied_by_nodes: dict[str, float]
    """The expected cells in as many tasks as have so many nodes together."""


class Coverage:
    """Counts in how many tasks each cell occurs."""

    def __init__(self, seeds: Collection[str]) -> None:
        self.seeds = frozenset(seeds)
        self._counts: Counter[str] = Counter()
        self._tasks = 0
        self._nodes = 0

    def add(self, cells: Iterable[str], nodes: int) -> None:
        """Counts a task with these cells, each once, whose program has so many nodes."""
        self._counts.update(set(cells))
        self._tasks += 1
        self._nodes += nodes

    def unseen(self, cells: Iterable[str]) -> set[str]:
        """Returns those of `cells` that neither a seed nor a task before has."""
        return {cell for cell in cells if cell not in self._counts and cell not in self.seeds}

    def covered(self) -> Covered:
        """Returns what has been covered so far."""
        every = list(self._counts.values())
        beyond = [count for cell, count in self._counts.items() if cell not in self.seeds]
        levels = [level for level in LEVELS if level <= self._tasks]
        # As many tasks as have so many nodes: longer programs get fewer.
        nodes = [(limit, round(limit * self._tasks / self._nodes)) for limit in NODES if 0 < limit <= self._nodes]
        return Covered(
            tasks=self._tasks,
            cells=len(every),
            beyond_seeds=len(beyond),
            rarefied={str(level): rarefied(every, self._tasks, level) for level in levels},
            rarefied_beyond_seeds={str(level): rarefied(beyond, self._tasks, level) for level in levels},
            rarefied_by_nodes={str(limit): rarefied(every, self._tasks, max(1, tasks)) for limit, tasks in nodes},
        )


def rarefied(counts: Iterable[int], tasks: int, level: int) -> float:
    """Returns the expected number of cells in `level` tasks drawn without replacement from `tasks`.

    `counts` says in how many tasks each cell occurs. A cell that occurs in n of N tasks is missed by m of them with
    probability C(N - n, m) / C(N, m): Hurlbert 1971 (there for individuals, of one cell each), and for samples with
    several cells Ugland et al. 2003.

    >>> rarefied([2, 1], tasks=2, level=1)
    1.5
    """
    of_count = Counter(counts)
    expected = 0.0
    missed = 1.0
    # C(N - n, m) / C(N, m) is the product over i < n of (N - m - i) / (N - i). Products round alike on every
    # processor, which a logarithm of the gamma function does not.
    for count in range(1, max(of_count, default=0) + 1):
        numerator = tasks - level - count + 1
        missed = missed * numerator / (tasks - count + 1) if numerator > 0 and missed > _NEGLIGIBLE else 0.0
        if count in of_count:
            expected += of_count[count] * (1.0 - missed)
    return round(expected, 6)
