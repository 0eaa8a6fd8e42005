"""What work brings is read at tasks that have attempts of both sorts."""

from __future__ import annotations

from tools.work_pay import differences


def test_attempts_with_work_are_compared_with_those_at_the_same_task() -> None:
    tasks = {
        "easy": ([True, True], [True]),
        "hard": ([False, False], [True, False]),
        # These tell nothing: all attempts have work, or none.
        "worked": ([], [True, True]),
        "plain": ([True], []),
    }
    assert differences(tasks) == {"share": 0.5, "tasks": 2, "right": 0.25}
    assert differences({}) == {"share": 0.0, "tasks": 0, "right": 0.0}
