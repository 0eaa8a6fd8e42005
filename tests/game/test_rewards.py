"""The rewards of teachers and students, and the advantages that rewards become."""

from __future__ import annotations

from statistics import fmean
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.config import GameConfig
from redqueen.game.rewards import advantages, solve_rate, student_reward, teacher_reward
from redqueen.records import Completion, GradedRollout, Role, Rollout, Status, Verdict

PAY = GameConfig()
STATUSES: tuple[Status, ...] = get_args(Status)
INVALID = [status for status in STATUSES if status not in ("valid", "infra_error")]


def graded(reward: float, group: str, role: Role = "student", member: str = "S0", tokens: int = 1) -> GradedRollout:
    ids = tuple(range(tokens))
    completion = Completion(
        member=member,
        version=1,
        prompt_ids=(7, 8),
        token_ids=ids,
        logprobs=(-0.5,) * tokens,
        text="text",
        finish_reason="stop",
    )
    return GradedRollout(
        rollout=Rollout(member=member, role=role, kind="code_o", group=group, completion=completion), reward=reward
    )


@pytest.mark.parametrize(("rho", "reward"), [(0.0, 0.0), (0.25, 0.75), (1 / 6, 5 / 6), (1.0, 0.0)])
def test_a_teacher_is_paid_for_tasks_that_are_hard_but_solved(rho: float, reward: float) -> None:
    assert teacher_reward(Verdict("valid"), rho, PAY) == pytest.approx(reward)


@pytest.mark.parametrize("status", INVALID)
def test_a_teacher_pays_for_an_invalid_proposal_whatever_rho(status: Status) -> None:
    assert teacher_reward(Verdict(status), None, PAY) == -1.0
    assert teacher_reward(Verdict(status), 0.5, PAY) == -1.0


def test_the_machines_faults_are_no_reward() -> None:
    assert teacher_reward(Verdict("infra_error"), 0.5, PAY) is None
    assert teacher_reward(Verdict("valid"), None, PAY) is None
    assert student_reward(Verdict("infra_error"), PAY) is None
    assert solve_rate([Verdict("infra_error")] * 3) is None
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
        ("nondeterministic", -0.5),
        ("malformed", -1.0),
    ],
)
def test_a_student_is_paid_by_what_the_verdict_says(status: Status, reward: float) -> None:
    assert student_reward(Verdict(status), PAY) == reward


def test_all_numbers_come_from_the_configuration() -> None:
    pay = GameConfig(
        teacher_invalid=-2, teacher_unsolved=0.25, student_correct=3, student_wrong=-4, student_malformed=-5
    )
    assert teacher_reward(Verdict("error"), None, pay) == -2
    assert teacher_reward(Verdict("valid"), 0.0, pay) == 0.25
    assert [student_reward(Verdict(s), pay) for s in ("correct", "wrong", "malformed")] == [3, -4, -5]


def test_rho_counts_only_what_was_judged() -> None:
    verdicts = [Verdict(s) for s in ("correct", "wrong", "malformed", "infra_error", "timeout")]
    assert solve_rate(verdicts) == 0.25


def test_only_a_correct_attempt_solves() -> None:
    assert [s for s in STATUSES if s != "infra_error" and solve_rate([Verdict(s)]) == 1.0] == ["correct"]


def test_advantages_by_hand() -> None:
    batch = [graded(1.0, "t1"), graded(-1.0, "t1"), graded(0.5, "t2"), graded(0.5, "t2")]
    # centred 1, -1, 0, 0; root mean square sqrt(1/2)
    assert [s.advantage for s in advantages(batch)] == pytest.approx([2**0.5, -(2**0.5), 0.0, 0.0])


def test_each_role_is_whitened_by_itself() -> None:
    students = [graded(1.0, "t1"), graded(-0.5, "t1"), graded(-1.0, "t2"), graded(1.0, "t2")]
    teachers = [graded(r / 100, "g", "teacher", "T0") for r in (0, 1, 5)]
    apart = [s.advantage for s in advantages(students)] + [s.advantage for s in advantages(teachers)]
    assert [s.advantage for s in advantages(students + teachers)] == pytest.approx(apart)


def test_a_sample_carries_its_own_rollout_in_order() -> None:
    batch = [graded(float(i), "g", member=f"S{i}", tokens=i + 1) for i in range(4)]
    samples = advantages(batch)
    assert [s.member for s in samples] == ["S0", "S1", "S2", "S3"]
    assert [s.token_ids for s in samples] == [b.rollout.completion.token_ids for b in batch]
    assert [s.logprobs for s in samples] == [b.rollout.completion.logprobs for b in batch]
    assert {s.prompt_ids for s in samples} == {(7, 8)}
    assert [s.advantage for s in samples] == sorted(s.advantage for s in samples)


def test_no_rollouts_give_no_samples() -> None:
    assert advantages([]) == []


@pytest.mark.parametrize("reward", [-1.0, 0.1, 1 / 3, 0.7])
def test_equal_rewards_give_no_advantage_rather_than_whitened_noise(reward: float) -> None:
    batch = [graded(reward, "a") for _ in range(7)] + [graded(0.3, "b") for _ in range(3)]
    assert {s.advantage for s in advantages(batch)} == {0.0}


REWARDS = st.sampled_from([-1.0, -0.5, 0.0, 1 / 6, 0.5, 5 / 6, 1.0])
ROLLOUTS = st.lists(st.tuples(REWARDS, st.sampled_from("abcd"), st.sampled_from(["teacher", "student"])), max_size=40)


@given(ROLLOUTS)
def test_advantages_are_centred_by_group_and_of_unit_size_by_role(rows: list[tuple[float, str, Role]]) -> None:
    batch = [graded(reward, f"{role}.{group}", role) for reward, group, role in rows]
    values = [s.advantage for s in advantages(batch)]
    for group in {b.rollout.group for b in batch}:
        own = [v for v, b in zip(values, batch, strict=True) if b.rollout.group == group]
        assert fmean(own) == pytest.approx(0.0, abs=1e-9)
    for role in {b.rollout.role for b in batch}:
        own = [v for v, b in zip(values, batch, strict=True) if b.rollout.role == role]
        assert fmean(v * v for v in own) == pytest.approx(1.0) or set(own) == {0.0}


@given(ROLLOUTS, st.floats(0.1, 10), st.floats(-5, 5))
def test_neither_the_scale_nor_the_zero_of_rewards_matters(
    rows: list[tuple[float, str, Role]], scale: float, shift: float
) -> None:
    plain = [graded(reward, f"{role}.{group}", role) for reward, group, role in rows]
    changed = [graded(reward * scale + shift, f"{role}.{group}", role) for reward, group, role in rows]
    expected = [sample.advantage for sample in advantages(plain)]
    assert [sample.advantage for sample in advantages(changed)] == pytest.approx(expected, abs=1e-6)
