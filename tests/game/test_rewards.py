"""The rewards of teachers and students, and the advantages that rewards become."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import hypot, prod
from statistics import fmean
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen import plugins
from redqueen.config import ConfigError, GameConfig
from redqueen.game.reward_probe import check_rewards, probe_attempt, probe_proposal
from redqueen.game.rewards import _baseline, advantages, solve_rate, student_reward, teacher_reward
from redqueen.records import Completion, GradedRollout, Role, Rollout, Status, Verdict

PAY = GameConfig()
STATUSES: tuple[Status, ...] = get_args(Status)
INVALID = [status for status in STATUSES if status not in ("valid", "infra_error")]


def paid_teacher(verdict: Verdict, rho: float | None, pay: GameConfig) -> float | None:
    return teacher_reward(probe_proposal(verdict), rho, novel=True, pay=pay)


def paid_student(verdict: Verdict, pay: GameConfig) -> float | None:
    return student_reward(probe_attempt(verdict), pay)


def graded(
    reward: float,
    group: str,
    role: Role = "student",
    member: str = "S0",
    tokens: int = 1,
    well_formed: bool | None = None,
) -> GradedRollout:
    """A rollout, which is well-formed unless it is paid -1 or something else is asked for."""
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
        rollout=Rollout(member=member, role=role, kind="code_o", group=group, completion=completion),
        reward=reward,
        well_formed=reward != -1 if well_formed is None else well_formed,
    )


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


def values(batch: list[GradedRollout], pay: GameConfig = PAY) -> list[float]:
    return [sample.advantage for sample in advantages(batch, pay)]


def test_advantages_by_hand() -> None:
    batch = [graded(1.0, "t1"), graded(-0.5, "t1"), graded(0.5, "t2"), graded(0.5, "t2")]
    # centred 3/4, -3/4, 0, 0; root mean square 3/4 * sqrt(1/2)
    assert values(batch) == pytest.approx([2**0.5, -(2**0.5), 0.0, 0.0])


def test_the_baseline_of_a_group_with_invalid_texts_by_hand() -> None:
    # The imagined proposal is paid (0.5 + 0.25) / 2, so the baseline is 0.125 / 4.
    batch = [graded(reward, "g", "teacher", "T0") for reward in (0.5, 0.25, -1.0)]
    centred = [0.5 - 0.03125, 0.25 - 0.03125, -1 - 0.03125]
    rms = fmean(value * value for value in centred) ** 0.5
    assert values(batch) == pytest.approx([value / rms for value in centred])


@pytest.mark.parametrize("role", ["teacher", "student"])
def test_with_rewards_of_zero_and_one_the_baseline_is_the_mean_of_the_group(role: Role) -> None:
    # A wrong answer and a malformed one are paid alike here, and so are an invalid task and one that nobody solves.
    pay = GameConfig(student_wrong=0, student_malformed=0, teacher_invalid=0)
    right, wrong = (graded(reward, "g", role, well_formed=True) for reward in (1.0, 0.0))
    malformed = graded(0.0, "g", role, well_formed=False)
    assert values([right, right, wrong, wrong], pay) == pytest.approx([1, 1, -1, -1])
    # Of three well-formed texts two are right: the imagined one is paid 2/3.
    assert _baseline([right, right, wrong, malformed], pay) == pytest.approx((2 + 2 / 3) / 5)
    assert values([malformed, malformed], pay) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (lambda played, pay: 1 / played.rho, "ZeroDivisionError"),
        (lambda played, pay: float("nan"), "gave nan: a reward is a finite number"),
        (lambda played, pay: None, "gave None: a reward is a finite number"),
    ],
)
def test_a_reward_that_fails_or_is_no_number_is_refused_before_the_run(
    own: Callable[[object, GameConfig], float], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plugins._parts, "teacher reward", {"own": own})
    with pytest.raises(ConfigError, match=said):
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


def test_each_role_is_whitened_by_itself() -> None:
    students = [graded(1.0, "t1"), graded(-0.5, "t1"), graded(-1.0, "t2"), graded(1.0, "t2")]
    teachers = [graded(r / 100, "g", "teacher", "T0") for r in (0, 1, 5)]
    apart = values(students) + values(teachers)
    assert values(students + teachers) == pytest.approx(apart)


def test_a_sample_carries_its_own_rollout_in_order() -> None:
    batch = [graded(float(i), "g", member=f"S{i}", tokens=i + 1) for i in range(4)]
    samples = advantages(batch, PAY)
    assert [s.member for s in samples] == ["S0", "S1", "S2", "S3"]
    assert [s.token_ids for s in samples] == [b.rollout.completion.token_ids for b in batch]
    assert [s.logprobs for s in samples] == [b.rollout.completion.logprobs for b in batch]
    assert {s.prompt_ids for s in samples} == {(7, 8)}
    assert [s.advantage for s in samples] == sorted(s.advantage for s in samples)


def test_no_rollouts_give_no_samples() -> None:
    assert advantages([], PAY) == []


@pytest.mark.parametrize("reward", [-0.5, 0.1, 1 / 3, 0.7])
def test_equal_rewards_give_no_advantage_rather_than_whitened_noise(reward: float) -> None:
    batch = [graded(reward, "a") for _ in range(7)] + [graded(0.3, "b") for _ in range(3)]
    assert set(values(batch)) == {0.0}


def test_a_group_of_equal_rewards_has_no_advantage_beside_others() -> None:
    # Tasks that 4 of 6 attempts solved: in floating point the mean of five such rewards is another number.
    batch = [graded(1 - 4 / 6, "a", "teacher", "T0") for _ in range(5)]
    batch += [graded(reward, "b", "teacher", "T1") for reward in (0.2, 0.9)]
    assert values(batch)[:5] == [0.0] * 5
    assert 0.0 not in values(batch)[5:]


@pytest.mark.parametrize(("role", "worst"), [("teacher", PAY.teacher_invalid), ("student", PAY.student_malformed)])
def test_a_batch_of_nothing_but_invalid_texts_is_felt(role: Role, worst: float) -> None:
    batch = [graded(worst, group, role) for group in "aab"]
    assert all(value < 0 for value in values(batch))


PAID: dict[Role, list[float]] = {"teacher": [-1.0, 0.0, 1 / 6, 0.5, 5 / 6], "student": [-1.0, -0.5, 1.0]}
ROLLOUTS = st.lists(
    st.sampled_from(["teacher", "student"]).flatmap(
        lambda role: st.tuples(st.sampled_from(PAID[role]), st.sampled_from("abcd"), st.just(role))
    ),
    max_size=40,
)
Rows = list[tuple[float, str, Role]]


def groups_of(rows: Rows) -> tuple[list[GradedRollout], dict[str, list[int]]]:
    """The rollouts, and the places of each group's."""
    batch = [graded(reward, f"{role}.{group}", role) for reward, group, role in rows]
    places: dict[str, list[int]] = {}
    for place, item in enumerate(batch):
        places.setdefault(item.rollout.group, []).append(place)
    return batch, places


@given(ROLLOUTS)
def test_groups_without_an_invalid_text_are_centred_and_roles_are_of_unit_size(rows: Rows) -> None:
    batch, places = groups_of(rows)
    found = values(batch)
    for own in places.values():
        if all(batch[place].reward != -1 for place in own):
            assert fmean(found[place] for place in own) == pytest.approx(0.0, abs=1e-9)
    for role in {b.rollout.role for b in batch}:
        each = [v for v, b in zip(found, batch, strict=True) if b.rollout.role == role]
        assert fmean(v * v for v in each) == pytest.approx(1.0) or set(each) == {0.0}


@given(ROLLOUTS)
def test_an_invalid_text_is_always_discouraged_and_the_best_of_a_group_never(rows: Rows) -> None:
    batch, places = groups_of(rows)
    found = values(batch)
    for own in places.values():
        best = max(batch[place].reward for place in own)
        for place in own:
            if batch[place].reward == -1:
                assert found[place] < 0
            elif batch[place].reward == best:
                assert found[place] >= 0


@given(ROLLOUTS, ROLLOUTS)
def test_a_group_is_told_apart_from_others_by_one_common_scale_only(rows: Rows, company: Rows) -> None:
    batch, places = groups_of(rows)
    others = [graded(reward, f"other.{role}.{group}", role, "S9") for reward, group, role in company]
    alone, together = values(batch), values(batch + others)
    for role in {b.rollout.role for b in batch}:
        own = [place for name, at in places.items() if name.startswith(role) for place in at]
        known = [place for place in own if alone[place]]
        if known:
            scale = together[known[0]] / alone[known[0]]
            assert scale > 0
            assert [together[p] for p in own] == pytest.approx([alone[p] * scale for p in own], abs=1e-9)


@given(ROLLOUTS, st.floats(0.1, 10), st.floats(-5, 5))
def test_neither_the_scale_nor_the_zero_of_rewards_matters(rows: Rows, scale: float, shift: float) -> None:
    def changed(reward: float) -> float:
        return reward * scale + shift

    other_pay = GameConfig(
        teacher_invalid=changed(-1),
        teacher_unsolved=changed(0),
        student_correct=changed(1),
        student_wrong=changed(-0.5),
        student_malformed=changed(-1),
    )
    batch, _ = groups_of(rows)
    others = [replace(item, reward=changed(item.reward)) for item in batch]
    assert values(others, other_pay) == pytest.approx(values(batch), abs=1e-6)


@pytest.mark.parametrize("valid_rate", [0.1, 0.5, 0.9])
def test_the_expected_gradient_points_where_the_expected_reward_rises(valid_rate: float) -> None:
    # A teacher with two logits, one for a valid proposal and one for an easy task, so the expected advantage times the
    # gradient of the log-probability can be summed over all groups of three. It is to be along that of the reward.
    easy_rate, pays = 0.4, (0.25, 0.75)
    outcomes = [
        (1 - valid_rate, -1.0, (-valid_rate, 0.0)),
        (valid_rate * easy_rate, pays[0], (1 - valid_rate, 1 - easy_rate)),
        (valid_rate * (1 - easy_rate), pays[1], (1 - valid_rate, -easy_rate)),
    ]
    mean_pay = easy_rate * pays[0] + (1 - easy_rate) * pays[1]
    exact = (
        valid_rate * (1 - valid_rate) * (mean_pay + 1),
        valid_rate * easy_rate * (1 - easy_rate) * (pays[0] - pays[1]),
    )
    found = [0.0, 0.0]
    for group in product(outcomes, repeat=3):
        batch = [graded(reward, "g", "teacher", "T0") for _, reward, _ in group]
        baseline = _baseline(batch, PAY)
        for _, reward, gradient in group:
            for i in range(2):
                found[i] += prod(p for p, _, _ in group) * (reward - baseline) * gradient[i]
    cosine = (found[0] * exact[0] + found[1] * exact[1]) / (hypot(*found) * hypot(*exact))
    assert cosine > 0.998, (found, exact)
