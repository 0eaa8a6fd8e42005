"""The rewards of teachers and students."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest

from redqueen import plugins
from redqueen.config import GameConfig
from redqueen.method.reward_probe import check_rewards, probe_attempt, probe_proposal
from redqueen.method.rewards import solve_rate, student_reward, teacher_reward
from redqueen.plugins import PluginError
from redqueen.records import Status, Verdict

PAY = GameConfig()
STATUSES: tuple[Status, ...] = get_args(Status)
INVALID = [status for status in STATUSES if status not in ("valid", "infra_error")]


def paid_teacher(verdict: Verdict, rho: float | None, pay: GameConfig) -> float | None:
    return teacher_reward(probe_proposal(verdict), rho, novel=True, pay=pay)


def paid_student(verdict: Verdict, pay: GameConfig) -> float | None:
    return student_reward(probe_attempt(verdict), pay)


@pytest.mark.parametrize(("rho", "reward"), [(0.0, 0.0), (0.25, 0.75), (1 / 6, 5 / 6), (1.0, 0.0)])
def test_a_teacher_is_paid_for_tasks_that_are_hard_but_solved(rho: float, reward: float) -> None:
    assert paid_teacher(Verdict("valid"), rho, PAY) == pytest.approx(reward)


@pytest.mark.parametrize("status", INVALID)
def test_a_teacher_pays_for_an_invalid_proposal_whatever_rho(status: Status) -> None:
    assert paid_teacher(Verdict(status), None, PAY) == -1.0
    assert paid_teacher(Verdict(status), 0.5, PAY) == -1.0


def test_the_machines_faults_are_no_reward() -> None:
    assert paid_teacher(Verdict("infra_error"), 0.5, PAY) is None
    assert paid_teacher(Verdict("valid"), None, PAY) is None
    assert paid_student(Verdict("infra_error"), PAY) is None
    assert solve_rate([Verdict("infra_error"), Verdict("nondeterministic")] * 3) is None
    assert solve_rate([Verdict("nondeterministic"), Verdict("correct"), Verdict("wrong")]) == 0.5
    assert solve_rate([]) is None


@pytest.mark.parametrize(
    ("status", "reward"),
    [
        ("correct", 1.0),
        ("wrong", -0.5),
        ("error", -0.5),
        ("timeout", -0.5),
        ("memory", -0.5),
        ("oversize", -0.5),
        ("forbidden", -0.5),
        ("unsupported", -0.5),
        ("nondeterministic", None),
        ("malformed", -1.0),
    ],
)
def test_a_student_is_paid_by_what_the_verdict_says(status: Status, reward: float | None) -> None:
    assert paid_student(Verdict(status), PAY) == reward


def test_all_numbers_come_from_the_configuration() -> None:
    pay = GameConfig(
        teacher_invalid=-2, teacher_unsolved=0.25, student_correct=3, student_wrong=-4, student_malformed=-5
    )
    assert paid_teacher(Verdict("error"), None, pay) == -2
    assert paid_teacher(Verdict("valid"), 0.0, pay) == 0.25
    assert [paid_student(Verdict(s), pay) for s in ("correct", "wrong", "malformed")] == [3, -4, -5]


def test_rho_counts_only_what_was_judged() -> None:
    verdicts = [Verdict(s) for s in ("correct", "wrong", "malformed", "infra_error", "timeout")]
    assert solve_rate(verdicts) == 0.25


def test_only_a_correct_attempt_solves() -> None:
    assert [s for s in STATUSES if s != "infra_error" and solve_rate([Verdict(s)]) == 1.0] == ["correct"]


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (lambda played, pay: 1 / played.rho, "ZeroDivisionError"),
        (lambda played, pay: float("nan"), "gave nan: it must give a finite number"),
        (lambda played, pay: None, "gave None: it must give a finite number"),
    ],
)
def test_a_reward_that_fails_or_is_no_number_is_refused_before_the_run(
    own: Callable[[object, GameConfig], float], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plugins._parts, "teacher reward", {"own": own})
    with pytest.raises(PluginError, match=said):
        check_rewards(GameConfig(teacher_reward="own"))


def test_the_shipped_rewards_pass_the_probe() -> None:
    check_rewards(GameConfig())
    check_rewards(GameConfig(teacher_reward="learnability"))
    check_rewards(GameConfig(teacher_reward="novel"))


def test_a_repetition_pays_nothing_where_only_new_ideas_pay() -> None:
    pay = GameConfig(teacher_reward="novel", teacher_unsolved=-0.25)
    task = probe_proposal(Verdict("valid"))
    assert [teacher_reward(task, rho, True, pay) for rho in (0.0, 0.25, 1.0)] == [-0.25, 0.75, 0.0]
    assert [teacher_reward(task, rho, False, pay) for rho in (0.0, 0.25, 1.0)] == [-0.25] * 3
