"""Expressions: Python is the oracle for what they mean, and everything is bounded."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.extras.expr.expressions import (
    DEEPEST,
    LARGEST,
    MOST_CHARACTERS,
    OPERATORS,
    parse,
    size_of,
    spell,
    value_of,
)
from redqueen.extras.expr.generated import drawn
from redqueen.tasks.kinds.interpreted import Fault

NUMBERS = st.integers(-99, 99)
DEPTHS = st.integers(0, 4)
SEEDS = st.integers(0, 10**6)


def in_python(program: str, x: int, y: int) -> int | None:
    """What Python gives; None where it divides by zero."""
    try:
        return eval(program, {"__builtins__": {"max": max, "min": min, "abs": abs}}, {"x": x, "y": y})
    except ZeroDivisionError:
        return None


def value_or_fault(program: str, x: int, y: int) -> int | Fault:
    try:
        return value_of(parse(program), x, y)
    except Fault as fault:
        return fault


@given(SEEDS, DEPTHS, NUMBERS, NUMBERS)
def test_python_gives_the_same_unless_a_value_is_too_large(seed: int, depth: int, x: int, y: int) -> None:
    program = spell(drawn(random.Random(seed), depth))
    expected = in_python(program, x, y)
    value = value_or_fault(program, x, y)
    if isinstance(value, Fault):
        assert value.status == "error"
        assert expected is None or value.detail.startswith("overflow")
    else:
        assert value == expected
        assert type(value) is int


@given(SEEDS, DEPTHS)
def test_what_is_spelled_is_read_back(seed: int, depth: int) -> None:
    expression = drawn(random.Random(seed), depth)
    assert parse(spell(expression)) == expression


def test_brackets_and_spaces_are_no_part_of_an_expression() -> None:
    assert spell(parse("((x)+ (007*y))")) == "x + 7 * y"
    assert spell(parse("(x-y)-(x-y)")) == "x - y - (x - y)"
    assert spell(parse("-(x+1)%3")) == "-(x + 1) % 3"
    assert spell(parse("(x if x<y else y) if(x)!=0 else(1 if x==y else 2)")) == (
        "(x if x < y else y) if x != 0 else 1 if x == y else 2"
    )


@given(st.text(max_size=30) | st.lists(st.sampled_from([*OPERATORS, *"xy(),12 3", "if", "else"])).map(" ".join))
def test_any_text_is_an_expression_or_a_fault(text: str) -> None:
    value = value_or_fault(text, 1, 2)
    if isinstance(value, int):
        assert value_of(parse(spell(parse(text))), 1, 2) == value
    else:
        assert value.status in ("malformed", "oversize", "error")
        assert "\n" not in value.detail


@pytest.mark.parametrize(
    ("program", "status", "detail"),
    [
        ("", "malformed", "its end"),
        ("z + 1", "malformed", "'z'"),
        ("x < y", "malformed", "after its end"),
        ("x if y else 1", "malformed", "a comparison is expected, not 'else'"),
        ("x ** 2", "malformed", "'*' where a value"),
        ("__import__('os')", "malformed", "no part of one"),
        ("x\ny", "malformed", "no part of one"),
        ("x + 100", "oversize", "at most 99"),
        ("(" * 90 + "x" + ")" * 90, "oversize", "brackets"),
        ("-" * 150 + "x", "oversize", "150"),
        ("x" + " + x" * 30, "oversize", "operators"),
        ("x" * (MOST_CHARACTERS + 1), "oversize", "characters"),
    ],
)
def test_what_is_no_expression_says_why(program: str, status: str, detail: str) -> None:
    with pytest.raises(Fault) as caught:
        parse(program)
    assert caught.value.status == status
    assert detail in caught.value.detail


def test_values_are_bounded_and_only_the_branch_that_is_taken_is_computed() -> None:
    assert value_of(parse("x * x"), 99, 0) == 9801 <= LARGEST
    with pytest.raises(Fault, match="overflow: 970299"):
        value_of(parse("x * x * x"), 99, 0)
    with pytest.raises(Fault, match="division by zero"):
        value_of(parse("x // (y - 1)"), 3, 1)
    with pytest.raises(Fault, match="remainder"):
        value_of(parse("x % y"), 3, 0)
    assert value_of(parse("0 if y == 0 else x % y"), 3, 0) == 0
    assert [value_of(parse(text), -7, 3) for text in ("x // y", "x % y", "-x % -y")] == [-3, 2, -2]


def test_the_ladder_counts_depth_and_operators() -> None:
    assert size_of(parse("x")) == (0, 0, frozenset())
    assert size_of(parse("max(x, y) % 3 if x < y else abs(x - 2)")) == (
        3,
        6,
        frozenset({"max", "%", "if", "<", "abs", "-"}),
    )
    assert size_of(parse("x + y + 1 + 2")) == (3, 3, frozenset("+"))
    assert size_of(parse("-" * DEEPEST + "x"))[0] == DEEPEST
