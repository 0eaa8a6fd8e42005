"""Finds out by its syntax tree whether a program may turn a function or an iterator into text, which shows its address.

It cannot if each function is only called, or handed to those that only call it, and each iterator is only walked
through. Child-side, standard library only.
"""

from __future__ import annotations

import ast

_CALLERS = frozenset(["map", "filter", "reduce"])
"""They call what they get first, and do nothing else with it."""
_WITH_KEY = frozenset(["sorted", "min", "max"])
_WALKERS_AS_TEXT = "list tuple dict set frozenset sum sorted min max any all next iter zip enumerate map filter"
_WALKERS = frozenset(_WALKERS_AS_TEXT.split())
"""They walk through what they get, or return another iterator, of which the same is asked."""
_WALKING_METHODS = frozenset(["join", "extend", "update"])


def shows_functions(program: str) -> bool:
    """Whether a function, a lambda too, goes anywhere but to a call. A program with classes may do anything."""
    try:
        tree = ast.parse(program)
    except (RecursionError, MemoryError):
        return True
    parents: dict[ast.AST, ast.AST] = {}
    names: set[str] = set()
    nodes = list(ast.walk(tree))
    for node in nodes:
        for child in ast.iter_child_nodes(node):
            parents[child] = node
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
            if node.decorator_list:
                return True
        elif isinstance(node, ast.ClassDef | ast.AsyncFunctionDef | ast.Match):
            return True
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    for node in nodes:
        function = isinstance(node, ast.Lambda)
        if isinstance(node, ast.Name):
            function = isinstance(node.ctx, ast.Load) and node.id in names
        if function and not _called(node, parents[node]):
            return True
    # A `sorted` of the program's own may do anything with what it gets.
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= names | {node.arg for node in nodes if isinstance(node, ast.arg)}
    return not bound.isdisjoint(_CALLERS | _WITH_KEY)


def shows_iterators(program: str, makers: frozenset[str]) -> bool:
    """Whether an iterator that one of the `makers` returns goes anywhere but to a loop or to what walks through it."""
    try:
        tree = ast.parse(program)
    except (RecursionError, MemoryError):
        return True
    bound: set[str] = set()
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            made = isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in makers
            if made and not _walked_through(child, node):
                return True
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    # A `list` of the program's own may do anything with what it gets.
    return not bound.isdisjoint(_WALKERS)


def _walked_through(node: ast.AST, parent: ast.AST) -> bool:
    if isinstance(parent, ast.For | ast.comprehension):
        return parent.iter is node
    if isinstance(parent, ast.Call):
        to = parent.func
        if isinstance(to, ast.Attribute):
            return to.attr in _WALKING_METHODS
        return isinstance(to, ast.Name) and to.id in _WALKERS
    if isinstance(parent, ast.Assign):
        return all(isinstance(target, ast.Tuple) for target in parent.targets)
    return isinstance(parent, ast.Starred)


def _called(node: ast.AST, parent: ast.AST) -> bool:
    if isinstance(parent, ast.Call):
        handed = isinstance(parent.func, ast.Name) and parent.func.id in _CALLERS and parent.args[0] is node
        return parent.func is node or handed
    if isinstance(parent, ast.keyword):
        return parent.arg == "key"
    # The names of lambdas are followed like those of functions; an alias is not.
    if not (isinstance(node, ast.Lambda) and isinstance(parent, ast.Assign)):
        return False
    return all(isinstance(target, ast.Name) for target in parent.targets)
