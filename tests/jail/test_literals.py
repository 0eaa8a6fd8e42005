"""The literal reader: what it reads, what it refuses, and that it agrees with Python."""

from __future__ import annotations

import ast
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.jail.child.values import (
    MAX_DEPTH,
    CodecError,
    LiteralError,
    OversizeError,
    canonical,
)
from redqueen.jail.literals import parse_arguments, parse_literal, to_literal
from tests.jail.strategies import HASHABLES, VALUES
from tests.linear import cpu_seconds


@given(st.text(alphabet="01.eEjx_+-[](){},:'\"\\ \n#bruNTa\x00é", max_size=12))
def test_the_reader_agrees_with_python_on_every_text_it_accepts(text: str) -> None:
    try:
        ours = parse_literal(text)
    except CodecError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert canonical(ast.literal_eval(text.strip(" \t\n") if "\n" not in text else f"({text}\n)")) == canonical(
            ours
        )


@given(VALUES)
def test_the_reader_accepts_whatever_repr_of_a_value_python_reads(value: Any) -> None:
    text = repr(value)
    try:
        python = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return
    assert canonical(parse_literal(text)) == canonical(python)


def test_text_keeps_dict_order_and_the_sign_of_zero_and_sorts_sets() -> None:
    assert to_literal({2: 0, 1: -0.0}) == "{2: 0, 1: -0.0}"
    assert to_literal({10, -300, 2, -1}) == "{-300, -1, 2, 10}"
    assert to_literal([set(), frozenset(), frozenset({1}), (1,), float("-inf")]) == (
        "[set(), frozenset(), frozenset({1}), (1,), float('-inf')]"
    )


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", ()),
        ("  \n ", ()),
        ("1", (1,)),
        ("1,", (1,)),
        ("(1, 2)", ((1, 2),)),
        ("[1, 2],\n'a',  # why\n{'k': None}", ([1, 2], "a", {"k": None})),
        ("- 1, +2.5, (3)", (-1, 2.5, 3)),
        ("'a' \"b\" r'\\d'", ("ab\\d",)),
        ("0x_ff, 1_000, 1e3", (255, 1000, 1000.0)),
        ("set(), float('-inf'), -inf", (set[int](), -math.inf, -math.inf)),
    ],
)
def test_argument_lists(text: str, values: tuple[Any, ...]) -> None:
    assert canonical(parse_arguments(text)) == canonical(values)


@pytest.mark.parametrize(
    "text",
    [
        "x=1",
        "*[1]",
        "**{}",
        "1 + 1",
        "f(1)",
        "__import__('os')",
        "0) or (True",
        "x) or (True",
        "[1][0]",
        "[i for i in (1,)]",
        "lambda: 1",
        "1 if 1 else 2",
        "f'{1}'",
        "1; 2",
        "[1",
        "1]",
        "1 2",
        ",",
        "012",
        "'a",
        "''''",
        "'\\x1'",
        "--1",
        "-True",
        "{[]: 1}",
        "{[]}",
        "1\x00",
        "'\x00'",
        "b'é'",
        "'a' b'b'",
        "...",
        "set(1)",
        "float('1')",
        "print",
    ],
)
def test_text_that_is_no_literal_is_refused(text: str) -> None:
    with pytest.raises(LiteralError):
        parse_arguments(text)


@pytest.mark.parametrize(
    "text",
    [
        "9" * 5_000,
        "0x" + "f" * 4_000,
        "[" * 70 + "]" * 70,
        "'" + "a" * 20_000 + "'",
        "float(" * 900,
        "9" * 320 + "+1j",
        "complex(" + "9" * 320 + ", 0)",
    ],
    ids=["digits", "hex digits", "nesting", "bytes", "calls", "sum", "complex"],
)
def test_text_over_a_cap_is_oversize(text: str) -> None:
    with pytest.raises(OversizeError):
        parse_arguments(text)


@pytest.mark.parametrize("text", ["(" * 5_000, "-" * 16_000, "'" * 16_001, "[1," * 5_000, "{" * 9_000, "1" * 16_000])
def test_hostile_text_is_refused_quickly(text: str) -> None:
    # Plain text of the same length is the measure, whatever the machine. A reader that is quadratic in one of these
    # would take thousands of times as long.
    plain = "[" + "1," * (len(text) // 2) + "]"
    allowed = 20 * cpu_seconds(lambda: parse_arguments(plain)) + 0.1

    def refuse() -> None:
        with pytest.raises(CodecError):
            parse_arguments(text)

    assert cpu_seconds(refuse) < allowed


def test_parsing_does_not_depend_on_the_warning_filters() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_literal("'\\d'") == "\\d"


@given(st.frozensets(HASHABLES, max_size=4))
def test_members_of_a_set_are_sorted_by_their_canonical_bytes(members: frozenset[Any]) -> None:
    shown = parse_literal(f"[{to_literal(set(members))[1:-1]}]") if members else []
    assert [canonical(value) for value in shown] == sorted(map(canonical, members))


def test_long_numbers_are_read_and_written_whatever_python_limits() -> None:
    script = (
        "from redqueen.jail import parse_literal, to_literal\n"
        "for value in (10 ** 1_000, -(10 ** 4_100) + 7, 10 ** 600, 10 ** 600 - 1):\n"
        "    assert parse_literal(to_literal(value)) == value\n"
        "print(to_literal(-(10 ** 1_000)))"
    )
    environment = {**os.environ, "PYTHONINTMAXSTRDIGITS": "640"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert (done.stdout, done.stderr) == (f"-1{'0' * 1_000}\n", "")


LEAVES = [
    math.inf,
    math.nan,
    1 + 2j,
    complex(math.inf, 0.0),
    complex(-0.0, math.nan),
    (),
    [],
    {},
    set(),
    frozenset(),
    7,
]


@pytest.mark.parametrize("leaf", LEAVES, ids=repr)
@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: (x,), lambda x: (x, 1), lambda x: {1: x}])
def test_whatever_is_written_is_read_at_the_deepest_level_too(leaf: Any, wrap: Callable[[Any], Any]) -> None:
    for _ in range(MAX_DEPTH):
        leaf = wrap(leaf)
    text = to_literal(leaf)
    assert to_literal(parse_literal(text)) == text
    with pytest.raises(OversizeError):
        to_literal(wrap(leaf))
    # A level is a container's, whatever brackets a number needs.
    with pytest.raises(OversizeError):
        parse_literal(f"[{text}]")
