"""Finds out by its syntax tree whether a program that uses sets can show their order.

`sorted(set(xs))`, `len({...})` or `x in seen` cannot. All that is not known to keep the order hidden may show it. Names
stand for the same thing in the whole program here: one that is ever bound to a set is one everywhere. Like every look
at a program this is no wall. Child-side, standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

_OPERATIONS = (ast.BitAnd, ast.BitOr, ast.Sub, ast.BitXor)
_TESTS = (ast.Expr, ast.Compare, ast.BoolOp, ast.IfExp, ast.If, ast.While)
"""What throws a value away, looks into it, or is a set itself where its parts are."""

_AGGREGATES = frozenset(("len", "set", "bool", "any", "all", "isinstance"))
_ORDERED = frozenset(("sorted", "min", "max", "sum"))
"""Functions whose result does not depend on the order of what they take; the second kind only for values of which one
is always less than the other."""

_NEW_SETS = frozenset(("union", "intersection", "difference", "symmetric_difference", "copy"))
_UPDATES_AS_TEXT = "update intersection_update difference_update symmetric_difference_update"
_WITH_SETS = _NEW_SETS | frozenset(_UPDATES_AS_TEXT.split()) | {"issubset", "issuperset", "isdisjoint"}
_METHODS = _WITH_SETS | {"add", "discard", "remove", "clear"}

_READERS = _AGGREGATES | _ORDERED | frozenset(("list", "tuple", "dict", "enumerate", "zip", "iter", "next"))
"""What may read the view of a dict: it keeps no view."""

_PURE = frozenset(("len", "ord", "chr", "abs", "int", "str", "range", "isinstance"))
_PURE_METHODS_AS_TEXT = "count index find get lower upper isalpha isdigit isupper islower startswith endswith"
_PURE_METHODS = frozenset(_PURE_METHODS_AS_TEXT.split())
_USED_UP = frozenset(("iter", "map", "filter", "zip", "reversed", "enumerate", "defaultdict", "Counter"))
"""Names of what changes when it is only looked at."""

_MODULES = frozenset(("typing", "collections"))
_VIEW_TYPES = frozenset(("KeysView", "ItemsView"))
_TOO_HARD = (ast.ClassDef, ast.Match, ast.AsyncFunctionDef)
_FLOATS = (ast.Div, ast.Pow)
_FLOAT_NAMES = frozenset(["float", "complex", "pow"])
_MOST_ROUNDS = 10


def shows_order(program: str, entry: str, arguments: list[Any]) -> bool:
    """Whether a program that makes sets may show their order when it is called with these arguments."""
    try:
        order = SetOrder(ast.parse(program), entry)
        return order.shown or (order.compares and holds(arguments, _inexact))
    except (RecursionError, MemoryError):
        return True


def is_set(value: Any) -> bool:
    """Whether a value is a set. One of numbers has a steady order, but a program may add text to it."""
    return type(value) in (set, frozenset)


def holds(value: Any, what: Callable[[Any], bool]) -> bool:
    """Whether a value, or one inside it, is of some kind."""
    if what(value):
        return True
    if type(value) is dict:
        return any(holds(pair, what) for pair in value.items())
    return type(value) in _CONTAINERS and any(holds(item, what) for item in value)


_CONTAINERS = (list, tuple, set, frozenset)


def _inexact(value: Any) -> bool:
    return type(value) in (float, complex)


class SetOrder:
    """One look at one program. `shown` is the answer."""

    def __init__(self, tree: ast.Module, entry: str) -> None:
        self.shown = False
        """Whether the program may show the order of a set."""
        self.compares = False
        """Whether it compares the members of a set with each other: then the inputs must be free of floats, since the
        order of a NaN and other numbers is nobody's."""
        self._entry = entry
        self._parents: dict[ast.AST, ast.AST] = {}
        self._bound: set[str] = set()
        self._sets: set[str] = set()
        self._functions: set[str] = set()
        self._calls_entry = False
        self._changes = False
        self._nodes = list(ast.walk(tree))
        floats = loose = combines = catches = False
        for node in self._nodes:
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
        for node in self._nodes:
            self._note_names(node)
            floats |= _may_be_float(node)
            catches |= isinstance(node, ast.Try)
            combines |= isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, _OPERATIONS)
            loose |= isinstance(node, ast.Attribute) and node.attr in ("keys", "items") and not self._read(node)
        self.shown |= loose and combines
        self._follow()
        # A message of Python says which of two values it saw first.
        self.shown |= self.compares and (floats or catches)

    def _note_names(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                self._bound.add(node.id)
            elif node.id == self._entry:
                self._calls_entry = True
            elif node.id in _USED_UP:
                self._changes = True
            elif node.id == "frozenset" or (node.id == "set" and not self._made_or_asked(node)):
                self.shown = True
        elif isinstance(node, ast.arg):
            self._bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef):
            self._bound.add(node.name)
        elif isinstance(node, ast.alias):
            self._bound.add((node.asname or node.name).partition(".")[0])
            self.shown |= node.name == "*" or node.name in _VIEW_TYPES
        elif isinstance(node, ast.ExceptHandler):
            self._bound.add(node.name or "")
        elif isinstance(node, ast.Attribute):
            self.shown |= node.attr in _VIEW_TYPES
        self._changes |= isinstance(node, ast.Yield | ast.YieldFrom)
        self._changes |= isinstance(node, ast.GeneratorExp) and not self._is_call(self._parents[node], _READERS)
        if isinstance(node, ast.Import):
            self.shown |= any(alias.name not in _MODULES for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            self.shown |= node.module not in _MODULES
        self.shown |= isinstance(node, _TOO_HARD)

    def _made_or_asked(self, name: ast.Name) -> bool:
        """Whether the name `set` is called, or asked for as in `isinstance(x, set)`."""
        call = self._parents[name]
        return isinstance(call, ast.Call) and (call.func is name or self._is_call(call, _AGGREGATES - {"set"}))

    def _follow(self) -> None:
        """Looks where each set goes, until no more names turn out to be sets."""
        for _ in range(_MOST_ROUNDS):
            count = len(self._sets) + len(self._functions)
            for node in self._nodes:
                self.shown |= self._is_set(node) and not self._hidden(node)
                self.shown |= isinstance(node, ast.Name) and node.id in self._functions and not self._called(node)
            if self.shown or count == len(self._sets) + len(self._functions):
                break
        else:
            self.shown = True
        self.shown |= not self._bound.isdisjoint(_READERS | _PURE)

    def _read(self, view: ast.Attribute) -> bool:
        """Whether nobody keeps the view of a dict that a method gives."""
        call = self._parents[view]
        if not (isinstance(call, ast.Call) and call.func is view):
            return False
        reader = self._parents[call]
        if isinstance(reader, ast.For | ast.comprehension):
            return reader.iter is call
        return isinstance(reader, ast.Compare | ast.BinOp) or self._is_call(reader, _READERS)

    def _called(self, node: ast.Name) -> bool:
        call = self._parents[node]
        return isinstance(call, ast.Call) and call.func is node

    def _is_set(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Name):
            return isinstance(node.ctx, ast.Load) and node.id in self._sets
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            return isinstance(node.op, _OPERATIONS) and any(self._is_set(side) or _is_view(side) for side in sides)
        if isinstance(node, ast.BoolOp):
            return any(self._is_set(value) for value in node.values)
        if isinstance(node, ast.IfExp):
            return self._is_set(node.body) or self._is_set(node.orelse)
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name):
            return node.func.id == "set" or node.func.id in self._functions
        return isinstance(node.func, ast.Attribute) and node.func.attr in _NEW_SETS and self._is_set(node.func.value)

    def _hidden(self, node: ast.AST) -> bool:
        """Whether what stands around a set keeps its order hidden; it may be a set in turn."""
        parent = self._parents[node]
        if isinstance(parent, _TESTS):
            return True
        if isinstance(parent, ast.BinOp):
            return isinstance(parent.op, _OPERATIONS)
        if isinstance(parent, ast.UnaryOp):
            return isinstance(parent.op, ast.Not)
        if isinstance(parent, ast.Assign | ast.AnnAssign | ast.AugAssign):
            return self._bind(parent)
        if isinstance(parent, ast.Attribute):
            call = self._parents[parent]
            return isinstance(call, ast.Call) and call.func is parent and parent.attr in _METHODS
        if isinstance(parent, ast.Call):
            return node is not parent.func and self._taken(parent)
        if isinstance(parent, ast.comprehension):
            return node is not parent.iter or self._picked(parent)
        if isinstance(parent, ast.Starred):
            return isinstance(self._parents[parent], ast.Set)
        return self._returned(node)

    def _bind(self, statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> bool:
        if isinstance(statement, ast.AugAssign) and not isinstance(statement.op, _OPERATIONS):
            return False
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        self._sets.update(names)
        return len(names) == len(targets)

    def _taken(self, call: ast.Call) -> bool:
        """Whether a call that has a set among its arguments does not depend on its order."""
        if isinstance(call.func, ast.Attribute):
            return call.func.attr in _WITH_SETS and self._is_set(call.func.value) and not call.keywords
        if self._is_call(call, _AGGREGATES):
            return not call.keywords
        if not self._is_call(call, _ORDERED) or len(call.args) != 1:
            return False
        self.compares = True
        return all(keyword.arg in ("reverse", "default") for keyword in call.keywords)

    def _is_call(self, node: ast.AST, names: frozenset[str]) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names

    def _picked(self, loop: ast.comprehension) -> bool:
        """Whether a comprehension over a set only picks some of its members, and its own order stays hidden too."""
        whole = self._parents[loop]
        target = loop.target
        assert isinstance(whole, ast.SetComp | ast.ListComp | ast.GeneratorExp | ast.DictComp)
        if len(whole.generators) > 1 or not isinstance(target, ast.Name):
            return False
        # An error in the middle, and what it says, is nothing that depends on the order as long as nobody catches it.
        self.compares = True
        if not all(self._pure(test) for test in loop.ifs):
            return False
        member = whole.key if isinstance(whole, ast.DictComp) else whole.elt
        same = isinstance(member, ast.Name) and member.id == target.id
        if isinstance(whole, ast.DictComp):
            return same and self._pure(whole.value) and self._returned(whole)
        if isinstance(whole, ast.SetComp):
            return same
        call = self._parents[whole]
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            return False
        return self._taken(call) if same else call.func.id in ("any", "all") and self._pure(member)

    def _pure(self, expression: ast.expr) -> bool:
        """Whether to compute an expression has no effect but its value, so that it may be done in any order."""
        if self._changes:
            return False
        for node in ast.walk(expression):
            if isinstance(node, ast.Call):
                method = isinstance(node.func, ast.Attribute) and node.func.attr in _PURE_METHODS
                if not (method or self._is_call(node, _PURE)):
                    return False
            elif isinstance(
                node, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await | ast.GeneratorExp | ast.Lambda
            ):
                return False
        return True

    def _returned(self, node: ast.AST) -> bool:
        """Whether a value, perhaps inside a list or a dict, is what a function returns."""
        top = self._parents[node]
        inside = isinstance(node, ast.DictComp)
        while isinstance(top, ast.List | ast.Tuple | ast.Dict):
            inside = True
            top = self._parents[top]
        if not isinstance(top, ast.Return):
            return False
        function = self._parents[top]
        while not isinstance(function, ast.FunctionDef):
            function = self._parents[function]
        if function.decorator_list or any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(function)):
            return False
        if function.name == self._entry and not self._calls_entry:
            return isinstance(self._parents[function], ast.Module)
        self._functions.add(function.name)
        return not inside


def _is_view(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items")


def _may_be_float(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float | complex)
    if isinstance(node, ast.Name):
        return node.id in _FLOAT_NAMES
    return isinstance(node, _FLOATS)
