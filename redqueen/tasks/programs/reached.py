"""A program without what can never run, so that its size says how much it computes and not how much was written.

In a pilot a third of the growth of a single agent's programs was code that nothing reaches. What is taken out is what
can be seen in the text alone: statements after `return`, `raise`, `break` or `continue`, branches on constants,
definitions and imports that nothing uses, constants assigned to names that nothing reads, docstrings and `pass`. The
program that is left gives the same outputs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from redqueen.tasks.programs import parse, room_for_depth, text_of
from redqueen.tasks.programs.constant_branches import Branches, is_required
from redqueen.tasks.programs.normal_form import ENTRY

# Takes out of a tree what nothing uses: functions, classes, imports, and constants assigned to names never read.

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_PLAIN = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.BitOr, ast.expr_context
)  # fmt: skip
_METHOD_DECORATORS = frozenset({"staticmethod", "classmethod", "property"})


class UsedNames:
    """The names that a program uses. Scopes are not told apart: a name that is read anywhere counts as used."""

    def __init__(self, tree: ast.Module) -> None:
        self._entry = {id(node) for node in tree.body if isinstance(node, _Definition) and node.name == ENTRY}
        # The names read by each definition that could go, and under None those read by the rest of the program.
        self._read: dict[ast.AST | None, set[str]] = {None: {ENTRY}}
        self._collect(tree)
        self.names = self._live()

    def can_go(self, node: ast.AST) -> bool:
        """Whether making this definition does nothing but bind its name."""
        return isinstance(node, _Definition) and id(node) not in self._entry and _is_quiet(node)

    def _collect(self, tree: ast.Module) -> None:
        waiting: list[tuple[ast.AST, ast.AST | None]] = [(tree, None)]
        while waiting:
            node, owner = waiting.pop()
            if self.can_go(node):
                owner = node
                self._read[owner] = set()
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
                self._read[owner].add(node.id)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self._read[owner].add(node.target.id)
            elif isinstance(node, ast.Global | ast.Nonlocal):
                self._read[owner].update(node.names)
            # Methods are found by attribute, so they are a part of their class and not candidates themselves.
            inside_class = isinstance(node, ast.ClassDef)
            for child in ast.iter_child_nodes(node):
                if inside_class and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                    waiting.extend((inner, owner) for inner in ast.iter_child_nodes(child))
                else:
                    waiting.append((child, owner))

    def _live(self) -> frozenset[str]:
        """The names that the entry function needs, directly or by way of other definitions."""
        names = set(self._read[None])
        idle = [node for node in self._read if node is not None]
        reached = True
        while reached:
            reached = [node for node in idle if getattr(node, "name", "") in names]
            idle = [node for node in idle if node not in reached]
            for node in reached:
                names |= self._read[node]
        return frozenset(names)


class Unused(ast.NodeTransformer):
    """Removes what is not among the names that are used. `changed` says whether anything was."""

    def __init__(self, used: UsedNames) -> None:
        self.used = used
        self.changed = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Removes the unused statements of each block of a statement."""
        if not isinstance(node, ast.ClassDef):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list):
                    required = is_required(node, name) and not isinstance(node, ast.Module)
                    setattr(node, name, self._block(block, required=required))
        return super().generic_visit(node)

    def _block(self, statements: list[ast.stmt], *, required: bool) -> list[ast.stmt]:
        kept = [statement for statement in statements if not self._is_idle(statement)]
        if len(kept) == len(statements):
            return statements
        self.changed = True
        return kept or ([ast.Pass()] if required else [])

    def _is_idle(self, statement: ast.stmt) -> bool:
        names = self.used.names
        if isinstance(statement, _Definition):
            return self.used.can_go(statement) and statement.name not in names
        if isinstance(statement, ast.Import | ast.ImportFrom):
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                return False
            bound = [(alias.asname or alias.name).partition(".")[0] for alias in statement.names]
            return "*" not in bound and names.isdisjoint(bound)
        if isinstance(statement, ast.Assign):
            targets: Sequence[ast.expr] = statement.targets
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None and _is_plain(statement.annotation):
            targets = [statement.target]
        else:
            return False
        value = statement.value
        unread = all(isinstance(target, ast.Name) and target.id not in names for target in targets)
        return unread and value is not None and _is_constant(value)


def _is_quiet(node: _Definition) -> bool:
    """Whether a definition runs nothing of the program's own when it is made."""
    if isinstance(node, ast.ClassDef):
        plain = not node.decorator_list and not node.keywords and all(_is_plain(base) for base in node.bases)
        return plain and all(_is_quiet_in_class(statement) for statement in node.body)
    return not node.decorator_list and _has_quiet_signature(node)


def _has_quiet_signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    arguments = node.args
    defaults = [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]
    annotations = [argument.annotation for argument in ast.walk(arguments) if isinstance(argument, ast.arg)]
    return all(_is_constant(default) for default in defaults) and all(
        annotation is None or _is_plain(annotation) for annotation in (*annotations, node.returns)
    )


def _is_quiet_in_class(part: ast.stmt) -> bool:
    if isinstance(part, ast.FunctionDef):
        names = [decorator.id if isinstance(decorator, ast.Name) else "" for decorator in part.decorator_list]
        return set(names) <= _METHOD_DECORATORS and _has_quiet_signature(part)
    if isinstance(part, ast.Expr):
        return isinstance(part.value, ast.Constant)
    if isinstance(part, ast.Assign):
        return _is_constant(part.value) and all(isinstance(target, ast.Name) for target in part.targets)
    return isinstance(part, ast.Pass)


def _is_plain(node: ast.expr) -> bool:
    """Whether an annotation or a base is made of names, attributes, subscripts and constants."""
    return all(isinstance(inner, _PLAIN) for inner in ast.walk(node))


def _is_constant(node: ast.expr) -> bool:
    """Whether an expression is a literal of constants, which nothing can notice being made."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.UnaryOp):
        number = isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int | float | complex)
        return number and isinstance(node.op, ast.USub)
    if isinstance(node, ast.List | ast.Tuple):
        return all(_is_constant(item) for item in node.elts)
    # The members of a set and the keys of a dict must be hashable.
    if isinstance(node, ast.Set):
        return all(isinstance(item, ast.Constant) for item in node.elts)
    if isinstance(node, ast.Dict):
        keys = all(isinstance(key, ast.Constant) for key in node.keys)
        return keys and all(_is_constant(value) for value in node.values)
    return False


# A program that asks for its own names or text could tell the difference, so nothing of it is taken out.
_ASKING_NAMES = frozenset({"locals", "vars", "dir", "globals", "eval", "exec", "__doc__", "__annotations__"})
_TELLING_NAMES = frozenset(
    {"vars", "globals", "getattr", "__doc__", "__code__", "__dict__", "__globals__", "__getattribute__"}
)
"""What can show a program its docstrings."""
_HARMLESS_ATTRIBUTES = frozenset({"__init__", "__name__", "__class__", "__len__", "__add__", "__main__", "__iter__"})


def reached(program: str) -> str:
    r"""Returns the program without what can never run, in one layout. Raises ProgramError if it does not parse.

    >>> reached("def f(x):\n    return x + 1\n    x = 3\n    return x")
    'def f(x):\n    return x + 1'
    """
    return text_of(reached_tree(parse(program)))


def reads_remarks(program: str) -> bool:
    """Returns whether a program has texts that students are not shown, and may read them.

    Raises ProgramError if it does not parse.
    """
    tree = parse(program)
    remarks = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    if not any(isinstance(value, ast.Constant) and isinstance(value.value, str) for value in remarks):
        return False
    return not _TELLING_NAMES.isdisjoint(_spoken(tree))


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
            unused = Unused(UsedNames(tree))
            tree = unused.visit(tree)
            changed = branches.changed or unused.changed
        return tree


def _asks_about_itself(tree: ast.Module) -> bool:
    """Whether a program may read its own names or text."""
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
