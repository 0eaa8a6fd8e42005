"""Counts the lines of a program that run on its inputs, after everything that is judged has been written.

It is a statistic and no evidence: a program may notice it and spoil its own numbers. Child-side, standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from program import FILENAME, Rules, start
from protocol import LINES, LINES_RUN
from values import unpack


def count_lines(
    rules: Rules,
    code: CodeType,
    inputs: list[bytes],
    most_events: int,
    tell: Callable[..., object],
    leave: Callable[[int], object],
) -> None:
    """Calls a fresh copy of the program once on each input and tells how many lines ran; tells nothing if it fails.

    After `most_events` line events it tells what it has and leaves, wherever the program is.
    """
    lines: set[int] = set()
    events = 0

    # From Python 3.12 on a comprehension is part of its function.
    def enter(frame: FrameType, _event: str, _value: Any) -> Any:
        return step if frame.f_code.co_filename == FILENAME else None

    def step(frame: FrameType, event: str, _value: Any) -> Any:
        nonlocal events
        if event == "line":
            events += 1
            lines.add(frame.f_lineno)
            if events == most_events:
                finish()
        return step

    def finish() -> None:
        sys.settrace(None)
        tell(LINES_RUN.pack(len(lines), events), LINES)
        leave(0)

    try:
        # What the program has kept from earlier calls, such as a cache, would hide lines.
        function = start(rules, code)
        for data in inputs:
            arguments = unpack(data)
            sys.settrace(enter)
            function(*arguments)
            sys.settrace(None)
        finish()
    except BaseException:  # noqa: BLE001 - a program may raise anything, and then there are no numbers
        sys.settrace(None)
