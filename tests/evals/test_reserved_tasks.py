"""Reserved programs as tasks: every kind, every program, drawn by the seed, and never shown as an example."""

from __future__ import annotations

from collections import Counter

import pytest

from redqueen.config import SandboxConfig
from redqueen.errors import UserError
from redqueen.evals.held_out import most_tasks, reserved_tasks, worked_examples
from redqueen.method.seeds import is_reserved
from redqueen.method.verifier import LocalVerifier
from redqueen.tasks.kinds import Half
from redqueen.tasks.python import NAMES, reserved


def test_the_kinds_and_the_programs_take_turns(verifier: LocalVerifier) -> None:
    tasks = reserved_tasks("report", NAMES, 12, 0, verifier)
    assert [task.kind for task in tasks] == list(NAMES) * 4
    assert len({task.program for task in tasks}) == 12
    assert {task.program for task in tasks} <= {draft.program for draft in reserved("report")}


def test_all_tasks_of_a_half_pose_each_program_once_in_each_kind(verifier: LocalVerifier) -> None:
    count = most_tasks("selection", NAMES)
    assert count == len(reserved("selection")) * 3
    tasks = reserved_tasks("selection", NAMES, count, 0, verifier)
    assert len(tasks) == len({task.id for task in tasks}) == count
    posed = Counter((task.kind, task.program) for task in tasks)
    assert posed == Counter((kind, draft.program) for kind in NAMES for draft in reserved("selection"))


def test_the_seed_draws_the_tasks(verifier: LocalVerifier) -> None:
    one, again, other = (reserved_tasks("report", NAMES, 9, seed, verifier) for seed in (0, 0, 1))
    assert one == again
    assert one != other


@pytest.mark.parametrize("half", [None, "report"])
def test_fewer_tasks_are_the_first_of_more(half: Half | None, verifier: LocalVerifier) -> None:
    every = reserved_tasks(half, NAMES, 30, 0, verifier)
    for count in (2, 5, 16, 21):
        assert reserved_tasks(half, NAMES, count, 0, verifier) == every[:count]


def test_examples_are_of_the_kind_and_not_reserved(verifier: LocalVerifier) -> None:
    for kind, shown in worked_examples(NAMES, 3, 0, verifier).items():
        assert [task.kind for task in shown] == [kind] * 3
        assert not any(is_reserved(task.program) for task in shown)


def test_programs_that_the_sandbox_cannot_run_are_an_error_and_not_fewer_tasks() -> None:
    with (
        LocalVerifier(SandboxConfig(value_bytes=16, wall_s=120.0, workers=1)) as strict,
        pytest.raises(UserError, match="reserved programs failed in the sandbox: see redqueen doctor"),
    ):
        reserved_tasks("report", NAMES, 40, 0, strict)
