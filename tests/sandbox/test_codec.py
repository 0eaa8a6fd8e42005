"""The value codec and the literal reader: what is equal, what is refused, and that text and bytes come back."""

from __future__ import annotations

import ast
import math
import time
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redqueen.sandbox.child.values import (
    CodecError,
    LiteralError,
    OversizeError,
    UnsupportedError,
    canonical,
    decode,
    encode,
)
from redqueen.sandbox.literals import parse_arguments, parse_literal, to_literal

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.complex_numbers()
    | st.text(max_size=8)
    | st.text(st.characters(), max_size=3)  # with surrogates
    | st.binary(max_size=8)
)
_hashables = st.recursive(
    _scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=6
)
_values = st.recursive(
    _hashables,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(_hashables, inner, max_size=3)
        | st.sets(_hashables, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(_values)
def test_bytes_and_text_read_back_to_an_equal_value(value: Any) -> None:
    key = canonical(value)
    assert canonical(decode(encode(value))) == key
    assert canonical(parse_literal(to_literal(value))) == key
    assert to_literal(decode(encode(value))) == to_literal(value)


@settings(max_examples=150, deadline=None)
@given(_values, _values)
def test_canonical_equality_never_joins_what_python_tells_apart(left: Any, right: Any) -> None:
    if canonical(left) == canonical(right):
        assert to_literal(left).count("nan") == to_literal(right).count("nan")
        assert "nan" in to_literal(left) or left == right


@settings(max_examples=300, deadline=None)
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


@settings(max_examples=200, deadline=None)
@given(_values)
def test_the_reader_accepts_whatever_repr_of_a_value_python_reads(value: Any) -> None:
    text = repr(value)
    try:
        python = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return
    assert canonical(parse_literal(text)) == canonical(python)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40))
def test_decode_of_any_bytes_is_a_value_or_a_codec_error(data: bytes) -> None:
    try:
        decode(data)
    except CodecError:
        return


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (True, 1),
        (1, 1.0),
        (1.0, 1 + 0j),
        ("1", b"1"),
        ([1], (1,)),
        ({1}, frozenset({1})),
        ((), []),
        (None, False),
        ([True], [1]),
        ({1: 2}, {True: 2}),
        ("a", "a "),
        ([[1], 2], [[1, 2]]),
    ],
)
def test_values_of_different_types_or_shapes_differ(left: Any, right: Any) -> None:
    assert canonical(left) != canonical(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({1: 2, 3: 4}, {3: 4, 1: 2}),
        ({"b", "a"}, {"a", "b"}),
        (math.nan, -math.nan),
        ([math.nan], [float("nan")]),
        (-0.0, 0.0),
        (complex(-0.0, 0.0), 0j),
        ({(1, -0.0)}, {(1, 0.0)}),
    ],
)
def test_values_that_count_as_equal(left: Any, right: Any) -> None:
    assert canonical(left) == canonical(right)


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
    ["9" * 5_000, "0x" + "f" * 4_000, "[" * 70 + "]" * 70, "'" + "a" * 20_000 + "'", "float(" * 900],
    ids=["digits", "hex digits", "nesting", "bytes", "calls"],
)
def test_text_over_a_cap_is_oversize(text: str) -> None:
    with pytest.raises(OversizeError):
        parse_arguments(text)


@pytest.mark.parametrize("text", ["(" * 5_000, "-" * 16_000, "'" * 16_001, "[1," * 5_000, "{" * 9_000, "1" * 16_000])
def test_hostile_text_is_refused_quickly(text: str) -> None:
    started = time.process_time()
    with pytest.raises(CodecError):
        parse_arguments(text)
    assert time.process_time() - started < 0.5


def test_parsing_does_not_depend_on_the_warning_filters() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_literal("'\\d'") == "\\d"


class _Always:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class _Int(int):
    pass


@pytest.mark.parametrize(
    "value",
    [_Always(), _Int(3), [_Int(3)], object(), len, (i for i in [1]), range(3), bytearray(b"a"), int, ...],
)
def test_only_exact_builtin_types_are_carried(value: object) -> None:
    with pytest.raises(UnsupportedError):
        encode(value)
    with pytest.raises(UnsupportedError):
        to_literal(value)


def test_values_that_explode_or_never_end_are_oversize() -> None:
    bomb: list[Any] = []
    for _ in range(50):
        bomb = [bomb, bomb]
    cycle: list[Any] = []
    cycle.append(cycle)
    for value in (bomb, cycle, 10**5_000, "a" * 10**7):
        with pytest.raises(OversizeError):
            encode(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"N" * 2,
        b"l\xff\xff\xff\xff",
        b"u\x00\x00\x00\x02a",
        b"s\x00\x00\x00\x01l\x00\x00\x00\x00",
        b"p\xff\xff",
    ],
)
def test_forged_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode(data)


def test_forged_nesting_is_refused() -> None:
    with pytest.raises(OversizeError):
        decode(b"l\x00\x00\x00\x01" * 5_000 + b"N")
