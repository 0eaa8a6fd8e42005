"""Graded on several inputs, the first miss decides: at once, whatever the program does then, and never sooner."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from redqueen.jail import GAME, Job, Limits, Outcome, Sandbox, canonical, running
from tests.jail.reach import reach

Run = Callable[..., Outcome]
pytestmark = pytest.mark.usefixtures("nothing_escaped")

EXPECTED = (canonical(1), canonical(2), canonical(3))


def graded(run: Run, code: str) -> Outcome:
    """`f(x)` does `code` with everything in reach; it is called with 1, 2, 3 and has to return them."""
    return run(reach("put = os.write\n" + code, "x"), "1", "2", "3", expected=EXPECTED)


AFTERWARDS = {
    "a loop": "spin()",
    "an exception": "1 // 0",
    "a crash": "ctypes.string_at(0)",
    "an exit": "os._exit(3)",
    "too much memory": "[0] * 10 ** 10",
    "a value that is none": "return f",
    "a right value": "return x",
    "half a frame, then a loop": "put(3, value(2)[:-1]); spin()",
    "rubbish, then a loop": "put(3, b'rubbish'); spin()",
    "values nobody asked for": "put(3, value(2) * 9); spin()",
    "an end, then a loop": "put(3, end()); spin()",
    "the right answers once more": "put(3, value(1) + value(2) + value(3) + end()); os._exit(0)",
    "a flood of values": "[put(3, value(2) * 5000) for _ in range(10 ** 9)]",
    "a flood of bytes": "[put(3, b'x' * 65536) for _ in range(10 ** 9)]",
}


@pytest.mark.parametrize("code", AFTERWARDS.values(), ids=AFTERWARDS.keys())
def test_after_a_miss_nothing_counts_any_more(run: Run, code: str) -> None:
    outcome = graded(run, f"if x == 1:\n    return 0\n{code}")
    assert (outcome.status, outcome.detail, outcome.outputs) == ("wrong", "output 0 differs", ("0",)), outcome
    assert outcome.cpu_ms < 2_500  # of 5,000


INSTEAD = {
    "a loop": ("timeout", "spin()"),
    "an exception": ("error", "1 // 0"),
    "a crash": ("error", "ctypes.string_at(0)"),
    "an exit": ("error", "os._exit(0)"),
    "a value that is none": ("unsupported", "return f"),
    "half a frame, then a loop": ("timeout", "put(3, value(2)[:-1]); spin()"),
    "rubbish": ("error", "put(3, b'rubbish'); return x"),
    "rubbish, then a wrong value": ("error", "put(3, b'rubbish' + value(0)); return x"),
    "every value twice": ("wrong", "put(3, value(x)); return x"),  # the second 2 stands where a 3 should
    "the last value twice": ("error", "put(3, value(x) if x == 3 else b''); return x"),
    "values nobody asked for": ("error", "put(3, value(2) + value(3) + value(4) + end()); os._exit(0)"),
    "an end too early": ("error", "put(3, end()); os._exit(0)"),
    "a value after the end": ("error", "put(3, value(2) + value(3) + end() + value(0)); os._exit(0)"),
    "a forged value": ("error", "put(3, frame(b'V', b'?')); return x"),
    "a flood of values": ("oversize", "put(3, value(2) + value(3))\nwhile True:\n    put(3, value(4) * 5000)"),
    "a flood of bytes": ("oversize", "while True:\n    put(3, b'x' * 65536)"),
}


@pytest.mark.parametrize(("status", "code"), INSTEAD.values(), ids=INSTEAD.keys())
def test_right_values_do_not_hide_what_comes_after_them(run: Run, run_briefly: Run, status: str, code: str) -> None:
    outcome = graded(run_briefly if status == "timeout" else run, f"if x == 1:\n    return 1\n{code}")
    assert outcome.status == status, outcome


def test_a_forged_answer_is_judged_like_a_returned_one(run: Run) -> None:
    assert graded(run, "put(3, value(1) + value(2) + value(3) + end()); os._exit(0)").status == "ok"
    assert graded(run, "put(3, value(1) + value(2) + value(4) + end()); os._exit(0)").status == "wrong"


def test_a_miss_in_the_middle_is_found_there(run: Run) -> None:
    outcome = graded(run, "return 5 if x == 2 else x")
    assert (outcome.status, outcome.detail, outcome.outputs) == ("wrong", "output 1 differs", ("1", "5"))


def test_values_are_looked_at_while_the_program_runs(run: Run) -> None:
    # Thirty inputs that take equally long, and the first answer is wrong.
    slow = "for _ in range(10 ** 6 * 3): pass\n    return 0"
    whole = run(f"def f(x):\n    {slow}", "1")
    outcome = run(f"def f(x):\n    {slow}", *["1"] * 30, expected=(canonical(1),) * 30)
    assert (outcome.status, outcome.outputs) == ("wrong", ("0",))
    assert outcome.cpu_ms < 15 * whole.cpu_ms


def test_a_rule_of_the_callers_is_asked_for_each_value_once(run: Run) -> None:
    asked: list[tuple[int, str]] = []

    def accepts(number: int, text: str) -> bool:
        asked.append((number, text))
        return text != "5"

    outcome = run(
        "def f(x):\n    while x > 3:\n        pass\n    return 2 * x + 1", "0", "1", "2", "9", accepts=accepts
    )
    assert (outcome.status, outcome.detail, outcome.outputs) == ("wrong", "output 2 differs", ("1", "3", "5"))
    assert asked == [(0, "1"), (1, "3"), (2, "5")]


def test_no_time_passes_for_a_program_while_its_values_are_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that waits to write uses no CPU, and would look as if the machine had starved it."""
    read_s = 0.0

    def accepts(_number: int, _text: str) -> bool:
        nonlocal read_s
        read_s += 1_000
        return True

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + read_s, clock_gettime=time.clock_gettime)
    monkeypatch.setattr(running, "time", clock)
    slow = "def f(x):\n    for _ in range(10 ** 6 * x):\n        pass\n    return 'x' * 10_000"
    assert run(slow, "0", "1", "2", "3", accepts=accepts).status == "ok"


def test_a_validation_runs_on_all_inputs(run_briefly: Run) -> None:
    program = "def f(x):\n    while x == 3:\n        pass\n    return 0"
    assert run_briefly(program, "1", "2", "3", validate=True).status == "timeout"


@pytest.mark.slow
def test_an_order_to_stop_that_comes_too_late_changes_no_verdict() -> None:
    """Programs that miss and end just when the zygote looks: the order and the end cross on the wire."""
    program = "def f(x):\n    for _ in range(x):\n        pass\n    return 0"
    with Sandbox(GAME.with_limits(Limits(wall_s=120.0)), workers=1) as sandbox:
        jobs = [
            job
            for number in range(0, 300_000, 2_000)
            for job in (
                Job(program, ("0", str(number), "0"), expected=EXPECTED),
                Job("def f(x):\n    return x + 1", (str(number),), expected=(canonical(number + 1),)),
            )
        ]
        outcomes = sandbox.run(jobs[:2])
        zygote = sandbox._interpreters.zygotes["A"].process.pid
        outcomes += sandbox.run(jobs[2:])
        assert [outcome.status for outcome in outcomes] == ["wrong", "ok"] * (len(jobs) // 2)
        assert sandbox._interpreters.zygotes["A"].process.pid == zygote
