"""The size of a program: numbers counted by hand, and what may not change them."""

from __future__ import annotations

import ast

import pytest
from radon.complexity import cc_visit

from redqueen.tasks.programs import ProgramError, parse, text_of
from redqueen.tasks.programs.complexity import Complexity, complexity, complexity_of
from redqueen.tasks.python import seeds

CLAMP = "def f(x):\n    if x > 3:\n        return x\n    return -x"


def test_a_small_program_counted_by_hand() -> None:
    # Module; FunctionDef; arguments, arg; If; Compare, Name, Gt, Constant; Return, Name; Return, UnaryOp, USub, Name.
    expected = Complexity(depth=5, cyclomatic=2, lines=4, variables=1, nodes=15, node_types=12)
    assert complexity(CLAMP) == expected


def test_comments_blank_lines_and_layout_change_nothing() -> None:
    spread = "# a comment\n\ndef f( x ):  # more\n\n    if (\n        x > 3\n    ): return x\n    return - x\n"
    assert complexity(spread) == complexity(CLAMP)


def test_variables_are_parameters_and_targets_and_count_once() -> None:
    helper = "def g(a):\n    return a\n"
    program = helper + "def f(a, *b, **c):\n    d = e = a\n    for d, i in b:\n        d += 1\n    return g(d)"
    assert complexity(program).variables == 6


def test_decisions_of_closures_methods_and_functions_add_up() -> None:
    closure = "def f(x):\n    def g(y):\n        return y if y else 0\n    return [g(i) for i in x if i]"
    # One decision in g, two in the comprehension.
    assert complexity(closure).cyclomatic == 4
    method = "class A:\n    def m(self):\n        if self:\n            return 1\n"
    assert complexity(method + "def f(x):\n    while x and x > 3:\n        x -= 1").cyclomatic == 4


def test_every_seed_has_sane_measures() -> None:
    for draft in seeds()[::20]:
        size = complexity(draft.program)
        tree = ast.parse(draft.program)
        every = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
        assert size.nodes == len(every)
        assert size.node_types == len({type(node) for node in every})
        assert 1 <= size.depth <= size.nodes
        # Radon's blocks leave closures out, and what is outside of every function.
        if draft.program.count("def ") == 1:
            assert size.cyclomatic == 1 + sum(block.complexity - 1 for block in cc_visit(draft.program))
        assert size.cyclomatic >= 1 + sum(block.complexity - 1 for block in cc_visit(draft.program))
        assert size.lines <= len(draft.program.splitlines()) + 1


def test_a_sum_as_long_as_the_sandbox_accepts_is_measured() -> None:
    assert complexity("def f(x):\n    return " + "+".join(["x"] * 2500)).depth == 2503


@pytest.mark.parametrize("text", ["def f(x:", "\0", "def f(x):\n    return " + "(" * 300])
def test_a_text_that_is_no_program_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ProgramError, match="no program that can be measured") as error:
        complexity(text)
    assert "\n" not in str(error.value)


LINES = ["f\"{'\u00a0'.join(x)}\"", f"x & 0x{'f' * 3_600}"]


@pytest.mark.parametrize("line", LINES, ids=["f-string", "long int"])
def test_a_program_that_python_cannot_write_is_measured_without_its_constants(line: str) -> None:
    tree = parse(f"def f(x):\n    return {line}\n")
    assert text_of(tree).startswith("def f(x):\n    return ")
    assert complexity_of(tree).lines == 2
