"""Takes out of a tree what no control flow reaches: what follows a `return`, and branches on constants."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from redqueen.tasks.programs.normal_form import does_nothing

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Branches(ast.NodeTransformer):
    """Removes unreachable statements, branches that are never taken, docstrings and `pass`. `changed` says if any."""

    def __init__(self) -> None:
        self.changed = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visits what is below, then cleans the blocks of a statement."""
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, self._block(block, required=is_required(node, name)))
        return node

    def visit_FunctionDef(self, node: _Function) -> ast.AST:
        """Cleans a function, unless that would change what its names mean or whether it is a generator."""
        # In Python a name is local wherever it is bound in the function, also where no control flow comes.
        before = _Scope(node)
        original = deepcopy(node)
        changed = self.changed
        self.generic_visit(node)
        if before.is_another(_Scope(node)):
            self.changed = changed
            return original
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_If(self, node: ast.If | ast.IfExp) -> ast.AST | list[ast.stmt]:
        """Replaces what a constant decides: a statement by the branch that is taken, a choice by what it chooses."""
        self.generic_visit(node)
        truth = _truth(node.test)
        if truth is None:
            return node
        self.changed = True
        return node.body if truth else node.orelse

    visit_IfExp = visit_If

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        """Replaces a loop that never begins by its `else`, and drops the `else` of one that never ends by itself."""
        self.generic_visit(node)
        truth = _truth(node.test)
        if truth is False:
            self.changed = True
            return node.orelse
        if truth and node.orelse:
            self.changed = True
            node.orelse = []
        return node

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        """Replaces a loop over an empty literal by its `else`."""
        self.generic_visit(node)
        if _is_empty(node.iter):
            self.changed = True
            return node.orelse
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST | None:
        """Removes an assertion of a constant that is true."""
        self.generic_visit(node)
        if _truth(node.test):
            self.changed = True
            return None
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Drops operands that cannot decide (`True and x` is `x`) and those after one that decides."""
        self.generic_visit(node)
        decisive = isinstance(node.op, ast.Or)
        kept: list[ast.expr] = []
        for number, value in enumerate(node.values):
            truth = _truth(value)
            # The last operand is the value of the whole if nothing before it decides.
            if truth is (not decisive) and number < len(node.values) - 1:
                continue
            kept.append(value)
            if truth is decisive:
                break
        if len(kept) == len(node.values):
            return node
        self.changed = True
        if len(kept) == 1:
            return kept[0]
        node.values = kept
        return node

    def _block(self, statements: list[ast.stmt], *, required: bool) -> list[ast.stmt]:
        kept: list[ast.stmt] = []
        for statement in statements:
            if not does_nothing(statement):
                kept.append(statement)
            if _leaves(statement):
                break
        # `pass` stands for an empty block where the grammar asks for one.
        if not kept and required:
            kept = [ast.Pass()]
        if len(kept) < len(statements) or (statements and type(kept[0]) is not type(statements[0])):
            self.changed = True
        return kept


def is_required(node: ast.AST, name: str) -> bool:
    """Whether the grammar asks for a statement in the block of a statement that has this name."""
    return name == "body" or (name == "finalbody" and not getattr(node, "handlers", None))


class _Scope:
    """What a function's own statements say about its names."""

    def __init__(self, function: _Function) -> None:
        own = list(_own_nodes(function))
        parameters = [node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)]
        self.bound = {*parameters, *(name for node in own for name in _bound(node))}
        self.declared = {name for node in own if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
        self.yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own)
        loads = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        self.read = {node.id for node in loads if isinstance(node.ctx, ast.Load)}

    def is_another(self, after: _Scope) -> bool:
        """Whether the function would mean something else `after` statements were removed."""
        lost = (self.bound - after.bound) & after.read
        return bool(lost) or self.declared != after.declared or self.yields != after.yields


def _own_nodes(function: _Function) -> Iterator[ast.AST]:
    """The nodes of a function that are not inside another function or class in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _Function | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]
    elif isinstance(name := getattr(node, "name", None), str):
        yield name


def _leaves(statement: ast.stmt) -> bool:
    """Whether nothing after a statement in its block can run."""
    if isinstance(statement, _LEAVES):
        return True
    if isinstance(statement, ast.If):
        return _ends(statement.body) and _ends(statement.orelse)
    if isinstance(statement, ast.While):
        return _truth(statement.test) is True and not _has_break(statement.body)
    return False


def _ends(block: Sequence[ast.stmt]) -> bool:
    return any(_leaves(statement) for statement in block)


def _has_break(block: Sequence[ast.stmt]) -> bool:
    """Whether a `break` ends the loop with this body; those of loops in it do not."""
    waiting: list[ast.AST] = list(block)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            # The `else` of an inner loop belongs to the outer one.
            waiting.extend(node.orelse)
        elif not isinstance(node, _Function | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def _is_empty(node: ast.expr) -> bool:
    if isinstance(node, ast.List | ast.Tuple):
        return not node.elts
    return isinstance(node, ast.Dict) and not node.keys


def _truth(test: ast.expr) -> bool | None:
    """Returns whether a test is true for certain, or None where that is not certain."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if _is_empty(test):
        return False
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.Compare):
        return _comparison(test)
    return None


def _comparison(test: ast.Compare) -> bool | None:
    """The truth of a comparison of two constants; `__name__` never is "__main__" in the sandbox."""
    compare = _COMPARISONS.get(type(test.ops[0]))
    if len(test.ops) > 1 or compare is None:
        return None
    left = test.left
    right = test.comparators[0]
    if not isinstance(right, ast.Constant):
        return None
    if isinstance(left, ast.Name) and left.id == "__name__" and right.value == "__main__":
        return isinstance(test.ops[0], ast.NotEq) if isinstance(test.ops[0], ast.Eq | ast.NotEq) else None
    if not isinstance(left, ast.Constant):
        return None
    try:
        return compare(left.value, right.value)
    except TypeError:
        # `1 < "a"` raises, and that is what the program does.
        return None
