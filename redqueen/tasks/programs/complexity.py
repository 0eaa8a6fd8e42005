"""How complex a program is: the four measures of PopuLoRA (arXiv:2605.16727), and two that its layout cannot change.

All are measured on a program's tree. What can never run counts; `redqueen.tasks.programs.reached` takes it out first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from radon.visitors import ComplexityVisitor

from redqueen.tasks.programs import parse, room_for_depth, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Complexity:
    r"""The size of one program.

    >>> complexity("def f(x):\n    if x > 3:\n        return x\n    return -x")
    Complexity(depth=5, cyclomatic=2, lines=4, variables=1, nodes=15, node_types=12)
    """

    depth: int
    """The nodes on the longest way from the root of the tree to a leaf."""
    cyclomatic: int
    """McCabe's number of the whole program, one more than its decisions, which are what radon takes for one."""
    lines: int
    """The lines that are not blank, when each statement is written on a line of its own and comments are left out."""
    variables: int
    """The different names of parameters and of what is assigned to."""
    nodes: int
    """The nodes of the tree. Contexts (`Load`, `Store`, `Del`), which repeat what a node's place says, do not count."""
    node_types: int
    """The different types of these nodes."""


def complexity(program: str) -> Complexity:
    """Returns the complexity of a program. Raises ProgramError if it does not parse."""
    return complexity_of(parse(program))


def complexity_of(tree: ast.Module) -> Complexity:
    """Returns the complexity of a parsed program."""
    nodes = 0
    deepest = 0
    types: set[type[ast.AST]] = set()
    variables: set[str] = set()
    for node, depth in _nodes(tree):
        nodes += 1
        deepest = max(deepest, depth)
        types.add(type(node))
        if isinstance(node, ast.arg):
            variables.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            variables.add(node.id)
    return Complexity(
        depth=deepest,
        cyclomatic=_cyclomatic(tree),
        lines=sum(bool(line.strip()) for line in text_of(tree).splitlines()),
        variables=len(variables),
        nodes=nodes,
        node_types=len(types),
    )


def _nodes(tree: ast.AST) -> Iterator[tuple[ast.AST, int]]:
    """The nodes of a tree with their depths; the root's is 1."""
    # Without recursion: a long sum is a deep tree.
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr_context):
                waiting.append((child, depth + 1))


class _Decisions(ComplexityVisitor):
    """Counts by radon's rules over the whole program. Radon itself counts each block alone and leaves closures out."""

    def visit_FunctionDef(self, node: ast.AST) -> None:  # noqa: N802 - the name is `ast`'s
        """Counts inside the definition too."""
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef
    visit_ClassDef = visit_FunctionDef


def _cyclomatic(tree: ast.Module) -> int:
    visitor = _Decisions()
    with room_for_depth():
        visitor.visit(tree)
    return visitor.complexity
