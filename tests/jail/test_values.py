"""The value codec: what is equal, what is carried, and that bytes and text come back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.jail.child.values import (
    CodecError,
    OversizeError,
    UnsupportedError,
    canonical,
    decode,
    encode,
    pack,
    unpack,
)
from redqueen.jail.literals import parse_literal, to_literal
from tests.jail.strategies import VALUES


@given(VALUES)
def test_bytes_and_text_read_back_to_an_equal_value(value: Any) -> None:
    key = canonical(value)
    assert canonical(decode(encode(value))) == key
    assert canonical(parse_literal(to_literal(value))) == key
    assert to_literal(decode(encode(value))) == to_literal(value)


@given(VALUES)
def test_packed_arguments_come_back_equal(value: Any) -> None:
    (back,) = unpack(pack((value,)))
    assert encode(back) == encode(value)


@pytest.mark.parametrize("value", [{256, 8, 0}, ({"a"}, 60), "<a>", 60, [[]] * 80, -0.0, "\ud800", 10**4_000])
def test_a_child_gets_arguments_as_if_they_were_encoded(value: Any) -> None:
    packed, encoded = unpack(pack((value,))), decode(encode((value,)))
    assert repr(packed) == repr(encoded)


def test_packed_texts_are_new_objects_in_each_call() -> None:
    data = pack(("ab", "ab"))
    first, second = unpack(data)
    assert first is not second
    assert unpack(data)[0] is not first


def test_arguments_nested_too_deep_are_not_packed() -> None:
    value: list[Any] = []
    for _ in range(70):
        value = [value]
    with pytest.raises(OversizeError):
        pack((value,))


@given(VALUES, VALUES)
def test_canonical_equality_never_joins_what_python_tells_apart(left: Any, right: Any) -> None:
    if canonical(left) == canonical(right):
        assert to_literal(left).count("nan") == to_literal(right).count("nan")
        assert "nan" in to_literal(left) or left == right


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
