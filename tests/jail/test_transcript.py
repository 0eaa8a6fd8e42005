"""What a child's bytes and its end mean together."""

from __future__ import annotations

from typing import Any

import pytest

from redqueen.jail.child.values import encode
from redqueen.jail.running import Reply, Stop, ZygoteError
from redqueen.jail.transcript import ChildRun as Story
from redqueen.jail.transcript import Transcript, judge_reply
from tests.jail.reach import end, value


def _judge(
    data: bytes = b"L",
    stop: Stop = Stop.RAN,
    killed_by: int = 0,
    code: int = 0,
    cpu_ms: float = 5.0,
    walled: bool = True,
) -> Story:
    said = Transcript(1, 100)
    said.feed(data)
    return judge_reply(Reply(stop=stop, signal=killed_by, code=code, cpu_ms=cpu_ms, wall_ms=4000.0), said, 1.0, walled)


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"killed_by": 9, "cpu_ms": 1001}, "timeout"),
        ({"stop": Stop.WALL, "killed_by": 9, "cpu_ms": 3900}, "timeout"),
        ({"stop": Stop.FLOOD, "killed_by": 9, "data": b""}, "oversize"),
        ({"killed_by": 11}, "error"),
        ({"code": 1}, "error"),
        ({}, "error"),
        ({"data": b"L\0\0\0\0\0"}, "error"),
    ],
)
def test_what_the_program_did_is_judged(how: dict[str, Any], status: str) -> None:
    assert _judge(**how).status == status


@pytest.mark.parametrize(
    "how",
    [{"stop": Stop.WALL, "killed_by": 9, "cpu_ms": 500}, {"killed_by": 9, "cpu_ms": 500}, {"code": 1, "data": b""}],
    ids=["starved", "killed from outside", "not locked in"],
)
def test_what_the_machine_did_is_not_held_against_the_program(how: dict[str, Any]) -> None:
    with pytest.raises(ZygoteError):
        _judge(**how)


@pytest.mark.parametrize(
    ("how", "status"),
    [({"stop": Stop.WALL, "killed_by": 9, "cpu_ms": 5}, "timeout"), ({"killed_by": 9}, "error")],
)
def test_without_the_wall_a_program_may_have_done_it_itself(how: dict[str, Any], status: str) -> None:
    assert _judge(**how, walled=False).status == status


def test_an_honest_transcript_is_read() -> None:
    story = _judge(b"L" + value(7) + end())
    assert (story.status, story.values) == ("ok", [encode(7)])
