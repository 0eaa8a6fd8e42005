"""Code that never runs: it is taken out, nothing else is, and the outputs stay the same."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.tasks.programs.complexity import complexity
from redqueen.tasks.programs.normal_form import normalise
from redqueen.tasks.programs.reached import reached
from redqueen.tasks.python import seeds

DEAD_STATEMENTS = (
    "pass",
    "'a remark'",
    "if False:\n    spare = 1\n    raise ValueError",
    "while 0:\n    spare = 2",
    "if 1 > 2:\n    return 5",
    "for spare in []:\n    spare.append(1)",
    "unused = [1, -2, 'a']",
    "def spare_helper(a, b=2):\n    return spare_helper(b)",
    "assert True",
    "import math",
    "class Spare:\n    '''text'''\n    def m(self):\n        return Spare()",
)
DEAD_ENDS = (
    "return 1",
    "x_spare = 3\nreturn x_spare",
    "raise ValueError('never')",
    "for i_spare in range(3):\n    pass",
)


def run(program: str, call: str) -> object:
    """What a program of the project's own gives, or the error that it raises."""
    names: dict[str, Any] = {"__name__": "program"}
    exec(program, names)
    try:
        return eval(f"f({call})", names)
    except Exception as error:  # noqa: BLE001 - an error is an outcome like another
        return repr(error)


def with_dead_code(program: str, statements: list[str], end: str | None, at: int) -> str:
    """The program with dead statements at the start of a function and, after a last `return`, dead ones at its end."""
    tree = ast.parse(program)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    function = functions[at % len(functions)]
    if end and isinstance(function.body[-1], ast.Return):
        function.body += ast.parse(end).body
    function.body[:0] = [part for text in statements for part in ast.parse(text).body]
    tree.body[:0] = ast.parse("def never_called(x):\n    return f(x)\nimport re\nspare_constant = {'a': (1, 2)}").body
    return ast.unparse(ast.fix_missing_locations(tree))


def outputs(program: str, inputs: tuple[str, ...]) -> list[str]:
    return [repr(run(program, call)) for call in inputs]


@given(
    st.integers(0, len(seeds()) - 1),
    st.lists(st.sampled_from(DEAD_STATEMENTS), max_size=4, unique=True),
    st.sampled_from([None, *DEAD_ENDS]),
    st.integers(0, 3),
)
def test_what_was_put_in_is_taken_out_and_the_outputs_stay(
    number: int, statements: list[str], end: str | None, at: int
) -> None:
    draft = seeds()[number]
    grown = with_dead_code(draft.program, statements, end, at)
    stripped = reached(grown)
    assert stripped == reached(draft.program)
    assert reached(stripped) == stripped
    assert complexity(stripped).nodes < complexity(grown).nodes
    expected = outputs(draft.program, draft.inputs)
    assert outputs(grown, draft.inputs) == expected
    assert outputs(stripped, draft.inputs) == expected


def test_no_seed_has_code_that_never_runs() -> None:
    for draft in seeds()[::7]:
        assert reached(draft.program) == normalise(draft.program)


BOTH_RETURN = "def f(x):\n    if x:\n        return 1\n    else:\n        return 2"
ENDLESS = "def f(x):\n    while True:\n        x += 1\n        if x > 9:\n            return x"
TRY = "def f(x):\n    try:\n        x += 1\n    finally:"
HANDLED = "def f(x):\n    try:\n        x += 1\n    except E:\n        x = 0"
LOOP = "def f(x):\n    for i in x:\n        continue"


@pytest.mark.parametrize(
    ("program", "left"),
    [
        (f"{BOTH_RETURN}\n    return 3", BOTH_RETURN),
        (f"{ENDLESS}\n    return 0", ENDLESS),
        (f"{LOOP}\n        x = 1\n    return x", f"{LOOP}\n    return x"),
        ("def f(x):\n    return x if not False else g(x)", "def f(x):\n    return x"),
        ("def f(x):\n    return True and x or (0 or x)", "def f(x):\n    return x or x"),
        ("def f(x):\n    return x\nif __name__ == '__main__':\n    print(f(1))", "def f(x):\n    return x"),
        ("def g(x):\n    return h(x)\ndef h(x):\n    return g(x)\ndef f(x):\n    return x", "def f(x):\n    return x"),
        ("def f(x):\n    '''Says it.'''", "def f(x):\n    pass"),
        (f"{TRY}\n        'Done.'", f"{TRY}\n        pass"),
        (f"{TRY}\n        y = 1", f"{TRY}\n        pass"),
        (f"{TRY}\n        if 0:\n            x = g(x)", f"{TRY}\n        pass"),
        ("def f(x):\n    try:\n        x += 1\n    except E:\n        x = 0\n    finally:\n        pass", HANDLED),
    ],
)
def test_what_is_taken_out(program: str, left: str) -> None:
    assert reached(program) == reached(left) == left


@pytest.mark.parametrize(
    "program",
    [
        # Without the yield it would be no generator, without the assignment x would be the global one.
        "def f(n):\n    def g():\n        return\n        yield 1\n    return list(g())",
        "x = 1\ndef f(n):\n    try:\n        return x\n        x = 2\n    except NameError:\n        return 'unbound'",
        "def f(n):\n  while 1:\n    for i in [1]:\n      pass\n    else:\n      break\n  return n",
        "def f(n):\n    '''Counts.'''\n    return f.__doc__",
        "def f(n):\n    a = 3\n    return sorted(locals())",
        "class A:\n    def __len__(self):\n        return 3\ndef f(n):\n    return len(A())",
        "import math as m\nfrom operator import add, mul\ndef f(n):\n    return m.floor(add(n, 1.5))",
        "def d(g):\n    g(0)\n    return g\nseen = []\n@d\ndef h(x):\n    seen.append(x)\ndef f(n):\n    return seen",
        "count = 0\ndef f(n):\n    global count\n    count = 5\n    return g()\ndef g():\n    return count",
        "def f(n):\n    return 1 < 'a' if n else 0",
        "def f(n):\n    total = 0\n    total += n\n    return [total := i for i in range(n)]",
    ],
)
def test_what_only_looks_dead_stays(program: str) -> None:
    stripped = reached(program)
    assert [repr(run(stripped, call)) for call in ("0", "3")] == [repr(run(program, call)) for call in ("0", "3")]
    assert reached(stripped) == stripped


def test_a_sum_as_long_as_the_sandbox_accepts_is_stripped() -> None:
    long = "def f(x):\n    return " + " + ".join(["x"] * 2500)
    assert reached(f"{long}\n    return 3") == long
