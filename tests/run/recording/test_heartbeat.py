"""A run that is silent for a minute says what it does."""

from __future__ import annotations

import queue
from contextlib import closing

from redqueen.run.recording.heartbeat import Heartbeat


def test_silence_ends_in_a_line_that_says_what_goes_on_and_how_far_it_is() -> None:
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    with closing(Heartbeat(said.put, every_s=0.001)) as heartbeat:
        heartbeat.begin("loading the base")
        assert said.get(timeout=60).startswith("loading the base, for 0:")
        heartbeat.begin("step 3/40: solve")
        heartbeat.progress(12, 96)
        while not (line := said.get(timeout=60)).startswith("step 3/40: solve, 12 of 96, for 0:"):
            assert line.startswith(("loading the base", "step 3/40: solve"))


def test_it_says_nothing_within_a_minute_or_after_its_end() -> None:
    said: list[str] = []
    with closing(Heartbeat(said.append)) as heartbeat:
        heartbeat.begin("solve")
        heartbeat.spoke()
    heartbeat.begin("learn")
    assert said == []
