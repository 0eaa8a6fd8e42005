"""Programs as text: how calls are split from a program, and what two spellings of a program, or two alike, share."""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from functools import lru_cache
from typing import cast

from redqueen.tasks.programs.renaming import Constants, Names

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
    """Returns the program without comments, docstrings and its own spacing.

    Raises SyntaxError or ValueError if it does not parse, RecursionError if it is too deeply nested.

    It is meant for programs that the sandbox has accepted, not for hostile text.
    """
    return ast.unparse(_undocumented(program))


def _undocumented(program: str) -> ast.Module:
    # Without docstrings removed, a teacher could make any program of the bank new with one line.
    tree = ast.parse(program)
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        # A body that is only a docstring keeps it, because an empty body would not parse.
        if documented and len(node.body) > 1 and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


# Each attempt at a task asks for it again.
@lru_cache(maxsize=4096)
def without_remarks(program: str) -> str:
    """Returns the program without comments, docstrings and other texts that stand alone; as it is if it has none.

    A program that has some is written anew. One that `ast` cannot parse or write is left as it is.
    """
    try:
        tree = ast.parse(program)
        remarks = _Remarks()
        bare = ast.unparse(remarks.visit(tree))
        return bare if remarks.found or _has_comment(program) else program
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return program


class _Remarks(ast.NodeTransformer):
    """Takes texts that stand alone out of a program; a body that holds nothing else does nothing then."""

    found = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            body: object = getattr(node, name, None)
            if isinstance(body, list):
                statements = cast("list[ast.stmt]", body)
                kept = [statement for statement in statements if not _is_text(statement)]
                self.found = self.found or len(kept) < len(statements)
                setattr(node, name, kept or ([ast.Pass()] if statements else []))
        return node


def _is_text(statement: ast.stmt) -> bool:
    match statement:
        # `...` stands for nothing, and says nothing.
        case ast.Expr(value=ast.Constant(value=value)):
            return value is not ...
        case _:
            return False


def _has_comment(program: str) -> bool:
    lines = io.StringIO(program).readline
    return "#" in program and any(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(lines))


# A step asks for the same program several times (task bank, worked examples), and parsing takes a millisecond.
@lru_cache(maxsize=4096)
def fingerprint(program: str) -> str:
    """Returns a short hash of the normal form: equal for programs that differ in spacing, comments and docstrings only.

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
        tree = Constants().visit(_undocumented(program))
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
