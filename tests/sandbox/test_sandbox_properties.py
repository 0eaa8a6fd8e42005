"""Properties over values and texts that nobody thought of."""

from __future__ import annotations

import copy
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from redqueen.sandbox import CodecError, Job, Sandbox, canonical, parse_arguments, parse_literal
from redqueen.sandbox.process import FLOOD, RAN, WALL, Reply, ZygoteError
from redqueen.sandbox.values import encode
from redqueen.sandbox.worker import judge_reply

_plain = st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["", "a", b"", b"a", 1.0, 1j])
_values = st.recursive(
    _plain,
    lambda inner: st.lists(inner, max_size=2) | st.tuples(inner) | st.dictionaries(_plain, inner, max_size=2),
    max_leaves=5,
)


def equal(left: Any, right: Any) -> bool:
    return canonical(left) == canonical(right)


@settings(max_examples=150)
@given(_values, _values, _values)
def test_equality_is_an_equivalence(one: Any, two: Any, three: Any) -> None:
    assert equal(one, one)
    assert equal(one, copy.deepcopy(one))
    assert equal(one, two) == equal(two, one)
    if equal(one, two) and equal(two, three):
        assert equal(one, three)
    assert equal([one], [two]) == equal(one, two)  # and containers inherit it


_watched: list[str] | None = None


def _hook(event: str, _arguments: tuple[Any, ...]) -> None:
    if _watched is not None:
        _watched.append(event)


sys.addaudithook(_hook)  # for good: Python cannot take one away, so it listens only when asked


@contextmanager
def watched() -> Iterator[list[str]]:
    """Everything that Python itself considers worth an audit: compile, exec, import, open, subprocess, ..."""
    global _watched
    _watched = found = []
    try:
        yield found
    finally:
        _watched = None


_code = ["__import__('os')", "exec('1')", "open('x')", "eval", "lambda: 0", "f'{1}'", "print()", "().__class__"]
_marks = ["x", "1", "'a'", *"[](){},:*-=;\n\\", "**", " or ", " for i in "]
_pieces = st.sampled_from([*_code, *_marks])


@settings(max_examples=300)
@given(st.lists(_pieces, max_size=12).map("".join) | st.text(max_size=30))
def test_parsing_never_executes_anything(text: str) -> None:
    with watched() as events, suppress(CodecError):
        parse_literal(text)
    with watched() as more, suppress(CodecError):
        parse_arguments(text)
    assert not {event for event in events + more if event != "sys._getframe"}


_numbers = st.integers(0, 40)


@settings(max_examples=300)
@given(st.sampled_from([RAN, WALL, FLOOD]), _numbers, st.integers(-1, 255), st.floats(0, 9e3), st.binary(max_size=60))
def test_whatever_a_child_leaves_is_a_status_or_the_machines_fault(
    stop: int, killed_by: int, code: int, cpu_ms: float, data: bytes
) -> None:
    framed = b"L" + struct.pack("!I", len(data)) + data
    for soup in (data, b"L" + data, framed):
        for walled in (True, False):
            with suppress(ZygoteError):
                judge_reply(Reply(stop, killed_by, code, cpu_ms, 4000.0, soup), 1, 1, 1.0, walled)


@settings(max_examples=200)
@given(_values, _values, _values)
def test_a_frame_of_any_values_is_a_status(status: Any, detail: Any, passes: Any) -> None:
    with suppress(CodecError):
        data = encode((status, detail, passes))
        reply = Reply(RAN, 0, 0, 1.0, 4000.0, b"L" + struct.pack("!I", len(data)) + data)
        assert judge_reply(reply, 1, 1, 1.0, walled=True).status in ("ok", "error")


@settings(max_examples=120)
@given(st.text(max_size=60), st.text(max_size=20))
def test_any_text_as_program_and_input_has_a_status(sandbox: Sandbox, program: str, given_: str) -> None:
    statuses = ("ok", "malformed", "forbidden", "error", "oversize", "unsupported", "memory", "nondeterministic")
    for text in (program, f"def f(*x):\n    return {program!r}, x"):
        outcome = sandbox.run([Job(text, (given_,))])[0]
        assert outcome.status in statuses
        assert outcome.detail.isprintable() or outcome.status == "malformed"
