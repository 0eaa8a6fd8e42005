"""How many lines of a program ran: a statistic that follows the verdict and cannot change it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redqueen.jail import Outcome
from redqueen.jail.job import MAX_EVENTS, LinesRun
from tests.jail.reach import REACH

pytestmark = pytest.mark.integration

Run = Callable[..., Outcome]

BRANCHES = """
def f(x):
    total = 0
    for i in range(x):
        total += i
    if total > 100:
        return -1
    return total
"""


def test_different_lines_and_events_over_all_inputs(run: Run) -> None:
    few = run(BRANCHES, "2", validate=True)
    # total, for three times, two additions, if, return.
    assert few.lines == LinesRun(distinct=5, events=8)
    more = run(BRANCHES, "2", "20", validate=True)
    assert more.lines == LinesRun(distinct=6, events=8 + 1 + 21 + 20 + 2)


def test_counting_stops_at_the_limit(run: Run) -> None:
    long = run("def f():\n    n = 0\n    while n < 30_000:\n        n += 1\n    return n", validate=True)
    assert long.status == "ok"
    assert long.lines == LinesRun(distinct=3, events=MAX_EVENTS)


def test_what_earlier_calls_have_kept_hides_no_line(run: Run) -> None:
    program = "import functools\n@functools.cache\ndef g(n):\n    return n + 1\ndef f(x):\n    return g(x)"
    assert run(program, "1", validate=True).lines == LinesRun(distinct=2, events=2)


def test_only_a_valid_program_is_counted(run: Run) -> None:
    assert run(BRANCHES, "2").lines is None
    assert run("def f():\n    return hash('a')", validate=True).lines is None
    assert run("def f():\n    return 1 // 0", validate=True).lines is None


TRACED = "\ndef traced():\n    return sys.gettrace() is not None\ndef f():\n    if traced():\n        "
# What a program does where it finds that its lines are counted, and whether there are numbers all the same.
SPOILED = {
    "another value": ("return 2", True),
    "an error": ("raise ValueError", False),
    "an end": ("os._exit(3)", False),
    "a crash": ("ctypes.string_at(0)", False),
    "a flood": ("os.write(3, b'x' * 10_000_000)", False),
    "another end": ("os.write(3, b'E' + bytes(4))\n        os._exit(0)", False),
    "more lines than events": ("os.write(3, b'N' + bytes((0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 1)))", False),
    "more lines than text": ("os.write(3, b'N' + bytes((0, 0, 0, 8, 0, 0, 0, 99, 0, 0, 0, 99)))", False),
}


@pytest.mark.parametrize(("code", "counted"), SPOILED.values(), ids=SPOILED.keys())
def test_a_program_that_notices_can_only_spoil_its_own_numbers(run: Run, code: str, counted: bool) -> None:
    program = REACH + TRACED + code + "\n    return 1"
    outcome = run(program, validate=True)
    assert (outcome.status, outcome.outputs) == ("ok", ("1",)), outcome
    assert (outcome.lines is not None) == counted


def test_a_program_that_does_not_end_any_more_stays_valid(run_briefly: Run) -> None:
    # In one line, where no event comes: a loop of Python's is left after so many of them.
    outcome = run_briefly(REACH + TRACED + "sum(range(10 ** 12))\n    return 1", validate=True)
    assert (outcome.status, outcome.outputs, outcome.lines) == ("ok", ("1",), None)
