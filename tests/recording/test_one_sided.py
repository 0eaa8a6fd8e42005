"""The warning that one side wins everything."""

import io
from contextlib import closing

from rich.console import Console

from redqueen.evolution import Game
from redqueen.recording.one_sided import WINDOW, OneSided
from redqueen.recording.terminal import LineReporter
from redqueen.runs.metrics import OutcomeCounts
from tests.recording.steps import MATCH, record


def counts(student: int = 0, draw: int = 0, teacher: int = 0) -> OutcomeCounts:
    return {"student": student, "draw": draw, "teacher": teacher}


def warnings(steps: list[OutcomeCounts]) -> list[int]:
    """The steps, counted from 1, after which there is a warning."""
    one_sided = OneSided()
    return [number for number, outcomes in enumerate(steps, 1) if one_sided.warning(outcomes)]


def test_a_stretch_is_announced_once_and_a_new_one_again() -> None:
    stretch = [counts(student=2)] * (WINDOW + 5)
    assert warnings(stretch) == [WINDOW]
    assert warnings([*stretch, counts(student=1, teacher=1), *stretch]) == [WINDOW, WINDOW + 5 + 1 + WINDOW]


def test_draws_and_the_other_side_end_a_stretch_and_a_step_without_games_does_not() -> None:
    some = [counts(teacher=1)] * (WINDOW - 1)
    for end in (counts(draw=1), counts(student=1), counts(teacher=1, draw=1)):
        assert warnings([*some, end, *some]) == []
    assert warnings([*some, counts(), counts(teacher=3)]) == [WINDOW + 1]
    assert warnings([counts(draw=1)] * 2 * WINDOW) == []
    assert warnings([counts(student=1), *some, counts(teacher=1)]) == [WINDOW + 1]


def test_the_terminal_says_it() -> None:
    console = Console(file=io.StringIO(), width=200)
    with closing(LineReporter(console, WINDOW)) as reporter:
        for step in range(WINDOW):
            reporter.record(record(step, games=(Game(match=MATCH, score=0.5, outcome="student"),)))
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert printed.count("warning: students have won every game for 10 steps") == 1
