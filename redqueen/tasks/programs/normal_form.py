"""Programs as text: how calls are split from a program, and what two spellings of a program, or two alike, share."""

from __future__ import annotations

import ast
import builtins
import hashlib
import io
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import cast

# Takes the names and constants out of a parsed program, so that what remains is how it computes.

_BUILTINS = frozenset(dir(builtins))
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Constants(ast.NodeTransformer):
    """Replaces every number by 0, every string by "" and every bytes by b""; True, False and None stay."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        """Replaces one constant."""
        node.kind = None
        if isinstance(node.value, str):
            node.value = ""
        elif isinstance(node.value, bytes):
            node.value = b""
        elif _is_number(node):
            node.value = 0
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """Replaces a number with its sign as one constant: -1 is as much a constant as 1."""
        node.operand = self.visit(node.operand)
        signed = isinstance(node.op, ast.USub | ast.UAdd) and _is_number(node.operand)
        return node.operand if signed else node


class Names(ast.NodeVisitor):
    """Numbers the names that a program gives, in place, by scope and first occurrence; annotations are removed.

    Attributes, methods, keywords of calls, builtins and what is imported keep their names: they say what is computed.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._numbers = count()
        self._imported = dict(_imported(tree))
        bound = {name for node in ast.walk(tree) for name in _bound(node)}
        self._kept = _BUILTINS - bound
        # One table of new names a scope, the innermost last.
        self._scopes: list[dict[str, str]] = [{}]

    def visit_Name(self, node: ast.Name) -> None:
        """Renames a variable."""
        node.id = self._renamed(node.id)

    def visit_arg(self, node: ast.arg) -> None:
        """Renames a parameter."""
        node.arg = self._renamed(node.arg)
        node.annotation = None

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Renames a function, then what its body binds."""
        node.name = self._renamed(node.name)
        node.returns = None
        self._function(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Renames the parameters of a lambda."""
        self._function(node, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Renames a class; its methods keep their names, as attributes do."""
        node.name = self._renamed(node.name)
        for child in [*node.bases, *node.keywords, *node.decorator_list]:
            self.visit(child)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                method = statement.name
                self.visit(statement)
                statement.name = method
            else:
                self.visit(statement)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        """Renames within a comprehension."""
        self._comprehension(node.generators, [node.elt])

    visit_SetComp = visit_ListComp
    visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        """Renames within a comprehension of a dict."""
        self._comprehension(node.generators, [node.key, node.value])

    def visit_Call(self, node: ast.Call) -> None:
        """Takes the names off keywords where the program itself defines the function, whose parameters are renamed."""
        if isinstance(node.func, ast.Name) and not self._stays(node.func.id):
            for keyword in node.keywords:
                keyword.arg = keyword.arg and ""
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Removes what an import is renamed to."""
        for alias in node.names:
            alias.asname = None

    visit_ImportFrom = visit_Import

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        """Renames what is declared."""
        node.names = [self._renamed(name) for name in node.names]

    visit_Nonlocal = visit_Global

    def visit_ExceptHandler(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar) -> None:
        """Renames the name of a caught exception, or one that a pattern binds."""
        node.name = node.name and self._renamed(node.name)
        self.generic_visit(node)

    visit_MatchAs = visit_ExceptHandler
    visit_MatchStar = visit_ExceptHandler

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        """Renames the rest of a mapping pattern."""
        node.rest = node.rest and self._renamed(node.rest)
        self.generic_visit(node)

    def _stays(self, name: str) -> bool:
        return name in self._kept or name in self._imported

    def _renamed(self, name: str) -> str:
        if self._stays(name):
            return self._imported.get(name, name)
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return self._scopes[0].setdefault(name, f"v{next(self._numbers)}")

    def _enter(self, names: Iterable[str]) -> None:
        # dict.fromkeys drops repetitions and keeps the order, which must not come from a set.
        self._scopes.append({name: f"v{next(self._numbers)}" for name in dict.fromkeys(names)})

    def _function(self, node: _Function, body: Sequence[ast.AST]) -> None:
        # Defaults and decorators are evaluated outside of the function.
        outside = [*node.args.defaults, *(default for default in node.args.kw_defaults if default is not None)]
        if not isinstance(node, ast.Lambda):
            outside += node.decorator_list
        for expression in outside:
            self.visit(expression)
        parameters = [child for child in ast.walk(node.args) if isinstance(child, ast.arg)]
        inside = [inner for child in body for inner in _scope(child)]
        elsewhere = {name for inner in inside if isinstance(inner, ast.Global | ast.Nonlocal) for name in inner.names}
        names = [parameter.arg for parameter in parameters] + [name for inner in inside for name in _bound(inner)]
        self._enter(name for name in names if name not in elsewhere)
        for child in [*parameters, *body]:
            self.visit(child)
        self._scopes.pop()

    def _comprehension(self, generators: Sequence[ast.comprehension], results: Sequence[ast.AST]) -> None:
        # The first iterable is evaluated outside of the comprehension.
        self.visit(generators[0].iter)
        targets = [inner for generator in generators for inner in ast.walk(generator.target)]
        self._enter(name for target in targets for name in _bound(target))
        for number, generator in enumerate(generators):
            self.visit(generator.target)
            if number:
                self.visit(generator.iter)
            for condition in generator.ifs:
                self.visit(condition)
        for result in results:
            self.visit(result)
        self._scopes.pop()


def _is_number(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return False
    return isinstance(node.value, int | float | complex)


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that one node binds, its children's not counted."""
    name: str | None = None
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            name = node.id
        case ast.arg():
            name = node.arg
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            name = node.name
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            name = node.name
        case ast.MatchMapping():
            name = node.rest
        case _:
            pass
    if name is not None:
        yield name


def _scope(node: ast.AST) -> Iterator[ast.AST]:
    """The node and what is below it in the same scope, in the order of the program."""
    yield node
    if isinstance(node, _Function | ast.ClassDef):
        return
    for child in ast.iter_child_nodes(node):
        # A comprehension's targets are its own; a walrus in it binds outside.
        if isinstance(node, ast.comprehension) and child is node.target:
            continue
        yield from _scope(child)


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that imports bind, with the names that the modules give them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if alias.asname:
                    yield alias.asname, alias.name
                else:
                    first = alias.name.partition(".")[0]
                    yield first, first


ENTRY = "f"


def split_calls(text: str) -> tuple[str, tuple[str, ...]]:
    r"""Separates a program from the `f(<arguments>)` lines after it: `("def f(x):\n    return x", ("3",))`.

    If any line after the first call is not a call, the inputs are empty.
    """
    lines = text.strip("\n").split("\n")
    first = next((i for i, line in enumerate(lines) if line.startswith(f"{ENTRY}(")), len(lines))
    calls = [line.rstrip() for line in lines[first:]]
    program = "\n".join(lines[:first]).rstrip()
    if not all(call.startswith(f"{ENTRY}(") and call.endswith(")") for call in calls):
        return program, ()
    return program, tuple(call[len(ENTRY) + 1 : -1] for call in calls)


def normalise(program: str) -> str:
    """Returns the program without comments, statements that do nothing (docstrings, `pass`) and its own spacing.

    Raises SyntaxError or ValueError if it does not parse, RecursionError if it is too deeply nested.

    It is meant for programs that the sandbox has accepted, not for hostile text.
    """
    return ast.unparse(_bare(program))


def _bare(program: str) -> ast.Module:
    # With statements that do nothing, a teacher could make any program of the bank new with one line.
    return _Remarks(does_nothing).visit(ast.parse(program))


# Each attempt at a task asks for it again.
@lru_cache(maxsize=4096)
def without_remarks(program: str) -> str:
    """Returns the program without comments, docstrings and other texts that stand alone; as it is if it has none.

    A program that has some is written anew. One that `ast` cannot parse or write is left as it is.
    """
    try:
        tree = ast.parse(program)
        remarks = _Remarks(_is_text)
        bare = ast.unparse(remarks.visit(tree))
        return bare if remarks.found or _has_comment(program) else program
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return program


class _Remarks(ast.NodeTransformer):
    """Takes some statements that do nothing out of a program; a body that holds nothing else is `pass` then."""

    def __init__(self, is_remark: Callable[[ast.stmt], bool]) -> None:
        self.is_remark = is_remark
        self.found = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            body: object = getattr(node, name, None)
            if isinstance(body, list):
                statements = cast("list[ast.stmt]", body)
                kept = [statement for statement in statements if not self.is_remark(statement)]
                self.found = self.found or len(kept) < len(statements)
                setattr(node, name, kept or ([ast.Pass()] if statements and name != "orelse" else []))
        return node


def _is_text(statement: ast.stmt) -> bool:
    match statement:
        # `...` stands for nothing, and says nothing.
        case ast.Expr(value=ast.Constant(value=value)):
            return value is not ...
        case _:
            return False


def does_nothing(statement: ast.stmt) -> bool:
    """Returns whether a statement is `pass`, a docstring or another constant that stands alone."""
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _has_comment(program: str) -> bool:
    lines = io.StringIO(program).readline
    return "#" in program and any(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(lines))


# A step asks for the same program several times (task bank, worked examples), and parsing takes a millisecond.
@lru_cache(maxsize=4096)
def fingerprint(program: str) -> str:
    """Returns a short hash of the normal form: equal for programs that differ in what `normalise` leaves out only.

    A program that `ast` cannot parse or write is identified by its text.
    """
    # The sandbox accepts programs that `ast.unparse` cannot write, for example "x + x + ..." with hundreds of terms.
    # This runs in the trainer's process, where an exception would end the run.
    try:
        form = normalise(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        form = program.strip()
    return hashed(form)


@lru_cache(maxsize=4096)
def shape(program: str) -> str:
    r"""Returns a short hash of how the program computes: equal for programs that are alike up to names and constants.

    Names that the program gives to variables, parameters and functions do not matter, nor do numbers, strings and
    bytes (a number's sign included), annotations, and what `fingerprint` leaves out. Operators, attributes, methods,
    keywords, builtins, imports, True, False and None do. A program that `ast` cannot parse is identified by its text.

    >>> shape("def f(x):\n    return x + 3") == shape("def f(number):\n    return number + -7.5")
    True
    >>> shape("def f(x):\n    return x + 3") == shape("def f(x):\n    return x * 3")
    False
    >>> shape("def f(a):\n    return len(a)") == shape("def f(a):\n    return sum(a)")
    False
    """
    # As in `fingerprint`: no program may end the run here.
    try:
        tree = Constants().visit(_bare(program))
        Names(tree).visit(tree)
        form = _dumped(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        form = program.strip()
    return hashed(form)


def _dumped(part: object) -> str:
    """Returns a tree as text, the same in each version of Python; `ast.dump` names empty fields in some of them."""
    if isinstance(part, ast.AST):
        fields = [
            f"{name}={_dumped(value)}" for name, value in ast.iter_fields(part) if value is not None and value != []
        ]
        return f"{type(part).__name__}({', '.join(fields)})"
    if isinstance(part, list):
        return f"[{', '.join(map(_dumped, part))}]"
    return repr(part)


def hashed(form: str) -> str:
    """Returns a short hash of a text."""
    return hashlib.blake2b(form.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
