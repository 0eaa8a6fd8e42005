"""The advantages that rewards become: each estimator beside a few lines of numpy, and what holds of the default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import comb, hypot, prod
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen import plugins
from redqueen.config import AdvantageSettings, Config, ConfigError, GameConfig, LearningConfig
from redqueen.method.advantages import ESTIMATORS, _baseline, advantages, best_of_k
from redqueen.method.reward_probe import check_advantage
from redqueen.plugins import PluginError
from redqueen.records import Completion, GradedRollout, Role, Rollout, Status, Verdict

PAY = GameConfig()


def graded(
    reward: float,
    group: str,
    role: Role = "student",
    member: str = "S0",
    tokens: Sequence[int] = (0,),
    status: Status | None = None,
) -> GradedRollout:
    """A rollout with the status that is usually paid so, unless another one is asked for."""
    usual: Status = "valid" if role == "teacher" else "correct" if reward == 1 else "wrong"
    completion = Completion(
        member=member,
        version=1,
        prompt_ids=(7, 8),
        token_ids=tuple(tokens),
        logprobs=(-0.5,) * len(tokens),
        text="text",
        finish_reason="stop",
    )
    return GradedRollout(
        rollout=Rollout(member=member, role=role, kind="code_o", group=group, completion=completion),
        reward=reward,
        verdict=Verdict(status or ("malformed" if reward == -1 else usual)),
    )


def values(batch: list[GradedRollout], pay: GameConfig = PAY, **learning: object) -> list[float]:
    settings = AdvantageSettings(game=pay, learning=LearningConfig.model_validate(learning))
    return [sample.advantage for sample in advantages(batch, settings)]


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


@pytest.mark.parametrize("status", ["malformed", "error", "timeout", "nondeterministic", "forbidden"])
def test_a_proposal_is_well_formed_only_if_it_is_a_valid_task(status: Status) -> None:
    # What runs and fails is no task, though a student's answer that fails in the same way is well-formed.
    group = [graded(0.5, "g", "teacher"), graded(0.25, "g", "teacher"), graded(-1.0, "g", "teacher", status=status)]
    assert _baseline(group, PAY) == pytest.approx(0.03125)
    assert all(value < 0 for value in values([graded(-1.0, "g", "teacher", status=status) for _ in range(3)]))


@pytest.mark.parametrize("role", ["teacher", "student"])
def test_with_rewards_of_zero_and_one_the_baseline_is_the_mean_of_the_group(role: Role) -> None:
    # A wrong answer and a malformed one are paid alike here, and so are an invalid task and one that nobody solves.
    pay = GameConfig(student_wrong=0, student_malformed=0, teacher_invalid=0)
    right, wrong = (
        graded(reward, "g", role, status="wrong" if role == "student" else "valid") for reward in (1.0, 0.0)
    )
    malformed = graded(0.0, "g", role, status="malformed")
    assert values([right, right, wrong, wrong], pay) == pytest.approx([1, 1, -1, -1])
    # Of three well-formed texts two are right: the imagined one is paid 2/3.
    assert _baseline([right, right, wrong, malformed], pay) == pytest.approx((2 + 2 / 3) / 5)
    assert values([malformed, malformed], pay) == [0.0, 0.0]


def test_each_role_is_whitened_by_itself() -> None:
    students = [graded(1.0, "t1"), graded(-0.5, "t1"), graded(-1.0, "t2"), graded(1.0, "t2")]
    teachers = [graded(r / 100, "g", "teacher", "T0") for r in (0, 1, 5)]
    apart = values(students) + values(teachers)
    assert values(students + teachers) == pytest.approx(apart)


def test_a_sample_carries_its_own_rollout_in_order() -> None:
    batch = [graded(float(i), "g", member=f"S{i}", tokens=range(i + 1)) for i in range(4)]
    samples = advantages(batch, Config().advantage_settings)
    assert [s.member for s in samples] == ["S0", "S1", "S2", "S3"]
    assert [s.token_ids for s in samples] == [b.rollout.completion.token_ids for b in batch]
    assert [s.logprobs for s in samples] == [b.rollout.completion.logprobs for b in batch]
    assert {s.prompt_ids for s in samples} == {(7, 8)}
    assert [s.advantage for s in samples] == sorted(s.advantage for s in samples)


def test_no_rollouts_give_no_samples() -> None:
    assert advantages([], Config().advantage_settings) == []


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


@given(ROLLOUTS)
def test_however_few_groups_carry_a_signal_no_advantage_and_no_sum_of_them_is_large(rows: Rows) -> None:
    batch, _ = groups_of(rows)
    found = np.array(values(batch))
    for role in {b.rollout.role for b in batch}:
        own = found[[b.rollout.role == role for b in batch]]
        # The root mean square is 1, so one text has at most sqrt(n), and all of them together at most n.
        assert np.abs(own).max() <= len(own) ** 0.5 + 1e-9
        assert np.abs(own).mean() <= 1 + 1e-9


def test_one_contested_group_among_many_moves_its_member_less_than_if_all_were_contested() -> None:
    contested = [graded(reward, "0", tokens=(i,)) for i, reward in enumerate((1.0, -0.5, -0.5, -0.5))]
    solved = [graded(1.0, f"{1 + i // 4}") for i in range(4 * 31)]
    all_contested = [
        replace(item, rollout=replace(item.rollout, group=f"{n}")) for n in range(32) for item in contested
    ]
    few, many = np.array(values(contested + solved)), np.array(values(all_contested))
    assert few[:4] == pytest.approx(many[:4] * 32**0.5)
    assert np.abs(few).mean() == pytest.approx(np.abs(many).mean() / 32**0.5)


# What an estimator says of one group's rewards, in numpy.
def numpy_grpo(rewards: np.ndarray) -> np.ndarray:
    return (rewards - rewards.mean()) / rewards.std(ddof=1)


def numpy_rloo(rewards: np.ndarray) -> np.ndarray:
    return np.array([reward - np.delete(rewards, place).mean() for place, reward in enumerate(rewards)])


def numpy_passk(rewards: np.ndarray, k: int) -> np.ndarray:
    """Pays each subset of k its best reward, and each text the mean of its subsets."""
    subsets = list(combinations(range(len(rewards)), k))
    pay = np.array([rewards[list(subset)].max() for subset in subsets])
    holds = np.array([[place in subset for subset in subsets] for place in range(len(rewards))])
    return np.array([(pay[own].mean() - pay.mean()) / pay.std() for own in holds])


GROUPS = st.lists(st.lists(st.sampled_from([-1.0, -0.5, 0.25, 1.0]), min_size=2, max_size=7), min_size=1, max_size=5)


@pytest.mark.parametrize(("name", "of_group"), [("grpo", numpy_grpo), ("rloo", numpy_rloo)])
@given(groups=GROUPS)
def test_grpo_and_rloo_are_those_of_numpy(
    name: str, of_group: Callable[[np.ndarray], np.ndarray], groups: list[list[float]]
) -> None:
    # Groups of both roles are mixed: neither estimator looks beyond a group.
    batch = [
        graded(reward, f"{group}", ("teacher", "student")[group % 2])
        for group, rewards in enumerate(groups)
        for reward in rewards
    ]
    expected = [of_group(np.array(own)) if len(set(own)) > 1 else np.zeros(len(own)) for own in groups]
    assert values(batch, advantage=name) == pytest.approx(np.concatenate(expected), abs=1e-12)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.25, 1.0]), min_size=3, max_size=8), st.integers(2, 7))
def test_passk_is_the_mean_over_all_subsets(rewards: list[float], k: int) -> None:
    found = best_of_k(rewards, k)
    pays = {max(subset) for subset in combinations(rewards, k)}
    if k >= len(rewards) or len(pays) == 1:
        assert found == [0.0] * len(rewards)
    else:
        assert found == pytest.approx(numpy_passk(np.array(rewards), k), abs=1e-9)


@pytest.mark.parametrize(("n", "right", "k"), [(6, 1, 4), (6, 2, 4), (16, 3, 8), (32, 1, 8), (512, 5, 100)])
@pytest.mark.parametrize("wrong", [0.0, -0.5])
def test_with_right_and_wrong_answers_passk_is_the_closed_form_of_the_paper(
    n: int, right: int, k: int, wrong: float
) -> None:
    # Section 2.4 of arXiv:2508.10751.
    pass_rate = 1 - comb(n - right, k) / comb(n, k)
    deviation = (pass_rate * (1 - pass_rate)) ** 0.5
    of_right = (1 - pass_rate) / deviation
    of_wrong = (1 - pass_rate - comb(n - right - 1, k - 1) / comb(n - 1, k - 1)) / deviation
    found = best_of_k([1.0] * right + [wrong] * (n - right), k)
    assert found == pytest.approx([of_right] * right + [of_wrong] * (n - right), rel=1e-6)


def test_passk_gives_no_advantage_where_every_k_attempts_hold_a_right_one() -> None:
    assert best_of_k([1, 1, 1, 0, 0, 0], 4) == [0.0] * 6
    # So hard tasks count more than those that half of the attempts solve.
    rare, usual = np.array(best_of_k([1, 0, 0, 0, 0, 0, 0, 0], 4)), np.array(best_of_k([1, 1, 1, 1, 0, 0, 0, 0], 4))
    assert np.abs(rare).sum() > np.abs(usual).sum()


def test_passk_is_for_students_and_teachers_have_the_default() -> None:
    teachers = [graded(reward, "g", "teacher", "T0") for reward in (0.75, 0.25, -1.0, 0.0, 0.5, 0.5)]
    students = [graded(reward, "t") for reward in (1.0, -0.5, -1.0, -0.5, -0.5, -0.5)]
    found = values(teachers + students, advantage="passk", pass_k=3)
    assert found[:6] == values(teachers)
    assert found[6:] == pytest.approx(numpy_passk(np.array([1.0, -0.5, -1.0, -0.5, -0.5, -0.5]), 3))


def test_a_malformed_attempt_is_discouraged_by_passk_also_where_nothing_is_right() -> None:
    # One of the fifteen subsets of four holds malformed attempts alone.
    found = best_of_k([-0.5, -0.5, -1.0, -1.0, -1.0, -1.0], 4)
    assert found[0] > 0 > found[2]


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("size", [1, 2, 5, 6])
@pytest.mark.parametrize("reward", [1.0, 0.1, -0.5])
def test_a_group_of_equal_rewards_or_of_one_has_no_advantage(name: str, size: int, reward: float) -> None:
    # Six attempts of which some were lost to faults of the machine are a smaller group.
    batch = [graded(reward, "g") for _ in range(size)] + [graded(other, "h") for other in (1.0, *(-0.5,) * 5)]
    found = values(batch, advantage=name)
    assert found[:size] == [0.0] * size
    assert found[size] > 0 > found[size + 1]


def test_passk_gives_no_advantage_where_faults_left_no_more_than_k() -> None:
    batch = [graded(reward, "g") for reward in (1.0, -0.5, -0.5, -0.5)]
    assert values(batch, advantage="passk", pass_k=4) == [0.0] * 4
    assert values(batch, advantage="passk", pass_k=3)[0] > 0


def test_passk_is_refused_if_all_attempts_are_one_try() -> None:
    with pytest.raises(ConfigError, match=r"set learning.pass_k below game.attempts=6"):
        Config().override(["learning.advantage=passk", "learning.pass_k=6"])
    assert Config().override(["learning.pass_k=6"]).learning.pass_k == 6


@pytest.mark.parametrize("name", ESTIMATORS)
def test_positives_are_weighted_and_neither_mistakes_nor_teachers_are(name: str) -> None:
    batch = [graded(reward, "t") for reward in (1.0, 1.0, -0.5, -0.5, -0.5, -1.0)]
    # A wrong answer beside malformed ones is better than its group, but it is no positive sample.
    batch += [graded(reward, "u") for reward in (-0.5, -1.0, -1.0, -1.0, -1.0, -1.0)]
    batch += [graded(reward, "g", "teacher", "T0") for reward in (1.0, 0.5, -1.0)]
    plain = values(batch, advantage=name)
    weighted = values(batch, advantage=name, positive_weight=0.1)
    assert weighted[:2] == pytest.approx([0.1 * value for value in plain[:2]])
    assert weighted[2:] == plain[2:]
    assert values(batch, advantage=name, positive_weight=0)[:2] == [0.0, 0.0]


def test_imitation_adds_one_weight_a_solved_task_in_equal_parts_to_its_different_right_texts() -> None:
    # Two texts are right, one of them three times; of the other task all are right and equal, a third has none.
    batch = [graded(1.0, "t", tokens=ids) for ids in ((1, 2), (3,), (3,), (3,))]
    batch += [graded(-0.5, "t", tokens=(1, 2, 3)), graded(-1.0, "t", tokens=(1, 2))]
    batch += [graded(1.0, "u", tokens=(1, 2)) for _ in range(4)]
    batch += [graded(-0.5, "v", tokens=(9,)) for _ in range(2)]
    batch += [graded(1.0, "g", "teacher", "T0", status="valid")]
    added = np.array(values(batch, imitation=0.6)) - np.array(values(batch))
    assert added == pytest.approx([0.3, 0.1, 0.1, 0.1, 0, 0, 0.15, 0.15, 0.15, 0.15, 0, 0, 0])


def test_imitation_is_not_weighted_as_a_positive_is() -> None:
    batch = [graded(1.0, "t"), graded(-0.5, "t")]
    right, wrong = values(batch)
    assert values(batch, positive_weight=0, imitation=0.5) == [0.5, wrong]
    assert values(batch, positive_weight=0.5, imitation=0.5) == pytest.approx([0.5 * right + 0.5, wrong])


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (lambda graded, settings: [1 / 0 for _ in graded], "learning.advantage=own fails .* ZeroDivisionError"),
        (lambda graded, settings: [float("nan") for _ in graded], "gave nan: it must give a finite number"),
        (lambda graded, settings: [None for _ in graded], "gave None: it must give a finite number"),
        (lambda graded, settings: [0.0], r"gave 1 numbers for 6 texts: give one for each"),
    ],
)
def test_an_advantage_that_fails_or_is_no_number_is_refused_before_the_run(
    own: Callable[[object, object], list[object]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plugins._parts, "advantage", {"own": own})
    with pytest.raises(PluginError, match=said):
        check_advantage(Config(learning=LearningConfig(advantage="own")).advantage_settings)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_shipped_advantages_pass_the_probe(name: str) -> None:
    check_advantage(Config(learning=LearningConfig(advantage=name)).advantage_settings)


def test_an_unknown_advantage_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no advantage 'gae': choose one of .*, grpo, rloo, passk, or load your own"):
        Config().override(["learning.advantage=gae"])
