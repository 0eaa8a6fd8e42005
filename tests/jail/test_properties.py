"""Properties over values, texts and transcripts that hypothesis draws."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from redqueen.jail import CodecError, Job, Sandbox, canonical, parse_arguments, parse_literal
from redqueen.jail.running import Reply, Stop, ZygoteError
from redqueen.jail.transcript import Transcript, judge_reply
from redqueen.jail.worker import Reading
from tests.jail.reach import end, frame, value

_plain = st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["", "a", b"", b"a", 1.0, 1j])
_values = st.recursive(
    _plain,
    lambda inner: st.lists(inner, max_size=2) | st.tuples(inner) | st.dictionaries(_plain, inner, max_size=2),
    max_leaves=5,
)


def equal(left: Any, right: Any) -> bool:
    return canonical(left) == canonical(right)


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


# An audit hook stays for good, so it listens only when it is asked to.
sys.addaudithook(_hook)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Collects every event that Python audits: compile, exec, import, open, subprocess, ..."""
    global _watched
    events: list[str] = []
    _watched = events
    try:
        yield events
    finally:
        _watched = None


_code = ["__import__('os')", "exec('1')", "open('x')", "eval", "lambda: 0", "f'{1}'", "print()", "().__class__"]
_marks = ["x", "1", "'a'", *"[](){},:*-=;\n\\", "**", " or ", " for i in "]
_pieces = st.sampled_from([*_code, *_marks])


@given(st.lists(_pieces, max_size=12).map("".join) | st.text(max_size=30))
def test_parsing_never_executes_anything(text: str) -> None:
    with watched() as events, suppress(CodecError):
        parse_literal(text)
    with watched() as more, suppress(CodecError):
        parse_arguments(text)
    assert not {event for event in events + more if event != "sys._getframe"}


def heard(data: bytes, cuts: list[int], values: int = 1) -> Transcript:
    """A transcript that arrived in pieces."""
    said = Transcript(values, 100)
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for start, stop in pairwise(places):
        said.feed(data[start:stop])
    return said


_numbers = st.integers(0, 40)
_frames = st.sampled_from([b"L", value(1), value([]), end(), end("error")])
_soup = st.lists(_frames | st.binary(max_size=9)).map(b"".join)
_stops = st.sampled_from([Stop.RAN, Stop.WALL, Stop.FLOOD])
RETURNED = Reply(stop=Stop.RAN, signal=0, code=0, cpu_ms=1.0, wall_ms=4000.0)


@given(_stops, _numbers, st.integers(-1, 255), st.floats(0, 9e3), _soup, st.lists(_numbers))
def test_whatever_a_child_leaves_is_a_status_or_the_machines_fault(
    stop: Stop, killed_by: int, code: int, cpu_ms: float, data: bytes, cuts: list[int]
) -> None:
    reply = Reply(stop=stop, signal=killed_by, code=code, cpu_ms=cpu_ms, wall_ms=4000.0)
    for soup in (data, b"L" + data, b"L" + frame(b"V", data) + end(), b"L" + frame(b"E", data)):
        for walled in (True, False):
            with suppress(ZygoteError):
                judge_reply(reply, heard(soup, cuts), 1.0, walled)
        Reading((b"",), 100).see(heard(soup, cuts).values)


@given(_soup, st.lists(st.integers(0, 60)), st.integers(0, 3))
def test_how_the_bytes_arrive_does_not_matter(data: bytes, cuts: list[int], values: int) -> None:
    whole, pieces = heard(b"L" + data, [], values), heard(b"L" + data, cuts, values)
    assert whole.values == pieces.values
    assert (whole.fault, whole.silent) == (pieces.fault, pieces.silent)
    stories = [judge_reply(RETURNED, said, 1.0, walled=True) for said in (whole, pieces)]
    assert stories[0] == stories[1]


@given(_values, _values, _values)
def test_an_end_of_any_values_is_a_status(status: Any, detail: Any, returned: Any) -> None:
    with suppress(CodecError):
        said = heard(b"L" + value(returned) + end(status, detail), [])
        assert judge_reply(RETURNED, said, 1.0, walled=True).status in ("ok", "error")


@given(st.text(max_size=60), st.text(max_size=20))
def test_any_text_as_program_and_input_has_a_status(sandbox: Sandbox, program: str, given_: str) -> None:
    statuses = ("ok", "malformed", "forbidden", "error", "oversize", "unsupported", "memory", "nondeterministic")
    texts = {program: (*statuses, "timeout"), f"def f(*x):\n    return {program!r}, x": statuses}
    for text, possible in texts.items():
        outcome = sandbox.run([Job(text, (given_,))])[0]
        assert outcome.status in possible
        assert outcome.detail.isprintable() or outcome.status == "malformed"
