"""Tests of clocks, turns and fresh processes."""

from __future__ import annotations

import os
import time

import pytest

from benchmarks.timing import Contender, Stopwatch, Timing, in_fresh_process, peak, take_turns

pytestmark = pytest.mark.integration


def test_contenders_take_turns_after_one_that_does_not_count() -> None:
    seen: list[str] = []

    def contender(name: str) -> Contender:
        def turn() -> Timing:
            seen.append(name)
            return Timing(float(len(seen)), 0.0)

        return Contender(name, turn)

    said: list[str] = []
    contenders = [contender(name) for name in "abc"]
    take_turns(contenders, 3, said.append, "case")
    assert "".join(seen) == "abc" + "abc" + "bca" + "cab"
    assert said == [f"case: round {n} of 3" for n in (1, 2, 3)]
    assert [turn.cpu_s for turn in contenders[0].turns] == [4, 9, 11]


def test_a_stopwatch_counts_waiting_as_wall_time_only() -> None:
    with Stopwatch() as waiting:
        time.sleep(0.05)
    with Stopwatch() as working:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
    assert waiting.wall_s >= 0.05
    assert working.cpu_s >= 0.05
    assert waiting.cpu_s < waiting.wall_s


def shout(text: str) -> int:
    print(text)
    return os.getpid()


@pytest.mark.slow
def test_a_fresh_process_answers_and_is_silent_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert in_fresh_process(shout, "loud") != os.getpid()
    out, err = capfd.readouterr()
    assert out == ""
    assert "loud" in err


def test_a_peak_is_seen_though_the_memory_was_given_back() -> None:
    size = 64 * 2**20
    before, most = peak(lambda: len(bytearray(os.urandom(1)) * size))
    assert 0.9 * size < most - before < 4 * size
    before, most = peak(lambda: None)
    assert most - before < size / 2
