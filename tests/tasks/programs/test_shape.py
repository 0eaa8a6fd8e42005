"""The shape of a program: what stays the same when only names and constants change."""

from __future__ import annotations

import ast
import doctest
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.tasks.programs import normal_form
from redqueen.tasks.programs.normal_form import shape
from redqueen.tasks.python import seeds

BASE = """def f(items, k=2):
    total = 0
    for item in items:
        if item > k:
            total += len(item) * 3
    return [total, 'a', b'a', None]"""

ALIKE = {
    "names": BASE.replace("items", "rows").replace("item", "row").replace("total", "n"),
    "a number": BASE.replace("3", "17"),
    "a kind of number": BASE.replace("k=2", "k=-2.5"),
    "a string": BASE.replace("'a',", "'banana',"),
    "bytes": BASE.replace("b'a'", "b''"),
    "annotations": BASE.replace("(items, k=2)", "(items: list[str], k: int = 2) -> list"),
    "a docstring and a comment": BASE.replace("    total = 0", '    """Doc."""\n    total = 0  # none yet'),
    "the entry's name": BASE.replace("def f", "def g"),
}

OTHER = {
    "an operator": BASE.replace("* 3", "+ 3"),
    "a comparison": BASE.replace(">", ">="),
    "a builtin": BASE.replace("len", "sum"),
    "None": BASE.replace("None", "True"),
    "a string for a number": BASE.replace("* 3", "* '3'"),
    "bytes for a string": BASE.replace("'a',", "b'a',"),
    "which variable": BASE.replace("len(item)", "len(items)"),
    "an assignment for an addition": BASE.replace("+=", "="),
    "one statement more": BASE.replace("    return", "    total = 0\n    return"),
    "a tuple for a list": BASE.replace("[total, 'a', b'a', None]", "(total, 'a', b'a', None)"),
}


@pytest.mark.parametrize("other", ALIKE.values(), ids=ALIKE)
def test_names_and_constants_do_not_matter(other: str) -> None:
    assert other != BASE
    assert shape(other) == shape(BASE)


@pytest.mark.parametrize("other", OTHER.values(), ids=OTHER)
def test_what_is_computed_matters(other: str) -> None:
    assert other != BASE
    assert shape(other) != shape(BASE)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("def f(s): return s.upper()", "def f(s): return s.lower()", False),
        ("def f(a): return sorted(a, reverse=True)", "def f(a): return sorted(a, key=True)", False),
        ("def f(x): return -x", "def f(x): return x", False),
        ("def f(x): return x - 1", "def f(x): return x - -1", True),
        ("def f(x): return not 1", "def f(x): return 1", False),
        ("import math\ndef f(x): return math.sqrt(x)", "import math as m\ndef f(y): return m.sqrt(y)", True),
        ("import math\ndef f(x): return math.sqrt(x)", "import cmath as math\ndef f(x): return math.sqrt(x)", False),
        ("from re import sub\ndef f(x): return sub(x)", "from re import sub as s\ndef f(x): return s(x)", True),
        ("from re import sub\ndef f(x): return sub(x)", "from re import findall as s\ndef f(x): return s(x)", False),
        ("def f(list): return list", "def f(x): return x", True),
        (
            "def f(x): return g(x, b=1)\ndef g(a, b): return a",
            "def f(x): return h(x, c=1)\ndef h(b, c): return b",
            True,
        ),
        ("def f(x): return f(x - 1) if x else 0", "def g(x): return g(x - 3) if x else 5", True),
        ("def f(x): return f(x - 1) if x else 0", "def f(x): return g(x - 1) if x else 0", False),
        # Names of one scope are not those of another.
        (
            "def f(a, b): return [x for x in a] + [x for x in b]",
            "def f(a, b): return [x for x in a] + [y for y in b]",
            1,
        ),
        ("def f(x): return [x for x in x]", "def f(x): return [y for y in x]", True),
        ("def f(x): return (lambda x: x)(x)", "def f(x): return (lambda y: y)(x)", True),
        ("def f(x): return (lambda y: y)(x)", "def f(x): return (lambda y: x)(x)", False),
        ("def f(x):\n def g(x): return x\n return g(x)", "def f(x):\n def g(y): return y\n return g(x)", True),
        ("def f(d): return {k: v for k, v in d}", "def f(d): return {v: k for k, v in d}", False),
        ("def f(d): return {k: v for k, v in d}", "def f(a): return {x: y for x, y in a}", True),
        ("def f(x): return f'{x:.2f}a'", "def f(y): return f'{y:>9}bc'", True),
        ("def f(x): return f'{x!r}'", "def f(x): return f'{x!s}'", False),
        (
            "def f(x):\n try: return x\n except ValueError as e: return e",
            "def f(y):\n try: return y\n except ValueError as z: return z",
            True,
        ),
        (
            "def f(x):\n match x:\n  case [a, *b]: return b\n  case {'k': c, **d}: return d",
            "def f(y):\n match y:\n  case [p, *q]: return q\n  case {'z': r, **s}: return s",
            True,
        ),
        (
            "n = 0\ndef f(x):\n global n\n n = n + x\n return n",
            "total = 7\ndef f(y):\n global total\n total = total + y\n return total",
            True,
        ),
        (
            "class A:\n def add(self, x): return x\ndef f(x): return A().add(x)",
            "class Sum:\n def add(this, n): return n\ndef f(n): return Sum().add(n)",
            True,
        ),
        (
            "class A:\n def add(self, x): return x\ndef f(x): return A().add(x)",
            "class A:\n def sub(self, x): return x\ndef f(x): return A().sub(x)",
            False,
        ),
    ],
)
def test_what_is_alike(one: str, other: str, alike: bool) -> None:
    assert (shape(one) == shape(other)) == alike


class Respelled(ast.NodeTransformer):
    """Gives every local variable another name and draws every number and string anew."""

    def __init__(self, tree: ast.Module, seed: int) -> None:
        self.rng = random.Random(seed)
        stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        given = sorted(stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)})
        numbers = self.rng.sample(range(1000), len(given))
        self.names = {name: f"name{number}" for name, number in zip(given, numbers, strict=True)}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.names[node.arg]
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str):
            node.value = self.rng.choice(["", "x", "two words"])
        elif isinstance(node.value, int) and not isinstance(node.value, bool):
            node.value = self.rng.choice([0, 7, 3, 1.5])
            # A sign is an operator of its own: a constant -3 would be written without brackets in `(-3) ** x`.
            if node.value == 3:
                return ast.UnaryOp(ast.USub(), node)
        return node


@given(st.sampled_from(seeds()[::3]), st.integers(0, 2**32))
def test_a_seed_with_other_names_and_constants_is_alike(draft, seed: int) -> None:
    tree = ast.parse(draft.program)
    assert shape(ast.unparse(Respelled(tree, seed).visit(tree))) == shape(draft.program)


@given(st.text())
def test_any_text_has_a_shape(text: str) -> None:
    assert len(shape(text)) == len(shape("x"))


@pytest.mark.parametrize("program", ["def f(:", "x" + " + x" * 20_000, "-" * 5000 + "x", "def f(): return 1\0"])
def test_what_does_not_parse_is_identified_by_its_text(program: str) -> None:
    assert shape(program) == shape(f"\n{program}\n")
    assert shape(program) != shape(program.replace("x", "y").replace("(", "((").replace("\0", "\0\0"))


def test_few_seeds_share_a_shape_and_those_that_do_look_alike() -> None:
    counts = Counter(shape(draft.program) for draft in seeds())
    assert len(counts) > len(seeds()) / 2
    assert shape("def f(x):\n    return x + 3") == shape("def f(x):\n    return x + 1")


def test_the_examples_of_the_docstrings_hold() -> None:
    results = doctest.testmod(normal_form)
    assert results.attempted >= 3
    assert results.failed == 0
