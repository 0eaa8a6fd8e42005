"""A joint update moves each member as if it were alone, with an optimizer and a state of its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from redqueen.config import LearningConfig
from redqueen.engine.adapters import fresh
from redqueen.engine.learning.learner import token_weights
from redqueen.engine.model.base import fingerprint
from redqueen.engine.model.decoder import FAMILIES
from redqueen.records import Sample
from tests.engine.conftest import Build, TinyPolicy
from tests.engine.samples import samples, twins, weights
from tests.reference import gradient


@pytest.mark.usefixtures("both_ways")
def test_one_members_update_leaves_every_other_member_bit_identical(tiny_policy: Build) -> None:
    policy = tiny_policy(learning=LearningConfig(lr=1e-2, weight_decay=0.1))
    policy.update(samples("b"))  # now b has moments, which must not change either
    before = {m: (weights(policy, m), policy.state(m)) for m in "abc"}
    update = policy.update(samples("a"))
    assert [u.member for u in update] == ["a"]
    assert not torch.equal(before["a"][0], weights(policy, "a"))
    for other in "bc":
        assert torch.equal(before[other][0], weights(policy, other))
        state = policy.state(other)
        assert state.keys() == before[other][1].keys()
        assert all(torch.equal(state[k], before[other][1][k]) for k in state)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("loss", ["token_mean", "sequence_mean"])
def test_a_members_update_is_the_same_alone_and_in_company(tiny_policy: Build, loss: str) -> None:
    alone, company = twins(tiny_policy, loss=loss)
    for _ in range(3):
        (one,) = alone.update(samples("b"))
        other = company.update(samples("a", 5) + samples("b") + samples("c", 2))[1]
        assert (one.loss, one.grad_norm) == pytest.approx((other.loss, other.grad_norm), rel=1e-4)
        torch.testing.assert_close(weights(alone, "b"), weights(company, "b"), rtol=1e-4, atol=1e-5)


def test_an_update_that_has_begun_changes_nothing_until_it_ends(tiny_policy: Build) -> None:
    at_once, begun = twins(tiny_policy)
    rows = samples("a", 5) + samples("b")
    before = {name: (weights(begun, name), begun.version(name)) for name in "ab"}
    finish = begun.begin_update(rows)
    for name, (values, version) in before.items():
        assert torch.equal(weights(begun, name), values)
        assert begun.version(name) == version
    assert finish() == at_once.update(rows)
    for name, (values, version) in before.items():
        assert not torch.equal(weights(begun, name), values)
        assert torch.equal(weights(begun, name), weights(at_once, name))
        assert begun.version(name) == version + 1
    assert begun.take_work().trained_tokens == at_once.take_work().trained_tokens


def test_samples_in_any_order_give_the_same_update(tiny_policy: Build) -> None:
    sorted_, mixed = twins(tiny_policy)
    rows = samples("a", 5) + samples("b") + samples("c", 2)
    one, other = sorted_.update(rows), mixed.update(rows[::-1])
    assert [u.member for u in one] == [u.member for u in other] == ["a", "b", "c"]
    for a, b in zip(one, other, strict=True):
        assert (a.loss, a.grad_norm) == pytest.approx((b.loss, b.grad_norm), rel=1e-4)


def test_any_split_into_micro_batches_gives_the_same_gradient(tiny_policy: Build) -> None:
    whole, split = (tiny_policy(learning=LearningConfig(batch_tokens=n)) for n in (4096, 64))
    rows = samples("a", 30) + samples("b", 19)
    seen: list[tuple[int, int]] = []
    one, other = whole.update(rows), split.update(rows, lambda *p: seen.append(p))
    assert len(seen) > 2, "the budget splits these samples"
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1] > 64
    for a, b in zip(one, other, strict=True):
        assert (a.loss, a.grad_norm) == pytest.approx((b.loss, b.grad_norm), rel=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_gradient_is_that_of_the_plain_policy_gradient_loss(
    tiny_policy: Build, family: str, checkpointing: bool
) -> None:
    policy = tiny_policy(family, learning=LearningConfig(lr=0.0, clip=1e9, checkpointing=checkpointing))
    rows = samples("a", 5) + samples("c", 4)
    for member, update in zip("ac", policy.update(rows), strict=True):
        mine = [s for s in rows if s.member == member]
        tokens = sum(len(s.token_ids) for s in mine)
        loss, expected = gradient(policy.base, policy.adapters, member, [(s, s.advantage / tokens) for s in mine])
        assert update.loss == pytest.approx(loss, rel=1e-4)
        assert update.grad_norm == pytest.approx(float(expected.norm()), rel=1e-4)
        optimizer = policy.learner.optimizers[member]
        (state,) = optimizer.state.values()
        # After one step, the first moment is (1 - beta1) times the gradient.
        actual = state["exp_avg"] / (1 - policy.learner.config.beta1)
        torch.testing.assert_close(actual, expected, atol=1e-4 * float(expected.abs().max()), rtol=0)


def test_the_step_is_adamws_on_the_clipped_gradient(tiny_policy: Build) -> None:
    config = LearningConfig(lr=1e-2, clip=0.05, weight_decay=0.1, beta1=0.8, beta2=0.9)
    policy = tiny_policy(learning=config)
    plain = weights(policy, "a").requires_grad_()
    optimizer = torch.optim.AdamW(
        [plain], lr=config.lr, betas=(config.beta1, config.beta2), weight_decay=config.weight_decay
    )
    for count in (4, 6):
        rows = samples("a", count)
        per_token = token_weights(rows, config.loss)
        weighted = [(s, w * s.advantage) for s, w in zip(rows, per_token, strict=True)]
        plain.grad = gradient(policy.base, policy.adapters, "a", weighted)[1]
        assert float(torch.nn.utils.clip_grad_norm_([plain], config.clip)) > config.clip
        optimizer.step()
        policy.update(rows)
        torch.testing.assert_close(weights(policy, "a"), plain.detach(), rtol=0, atol=2e-4)


@pytest.mark.usefixtures("both_ways")
def test_zero_advantages_count_in_the_normalisation_but_move_nothing(tiny_policy: Build) -> None:
    policy = tiny_policy()
    before = weights(policy, "a")
    update = policy.update(samples("a", advantage=0.0))[0]
    assert update.skipped == "every advantage was zero"
    assert torch.equal(before, weights(policy, "a"))
    assert policy.state("a") == {}
    half, full = tiny_policy(), tiny_policy()
    rows = samples("a", 4)
    idle = [
        Sample(member="a", prompt_ids=s.prompt_ids, token_ids=s.token_ids, logprobs=s.logprobs, advantage=0.0)
        for s in rows
    ]
    ratio = half.update(rows + idle)[0].loss / full.update(rows)[0].loss
    assert ratio == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("bad", [float("inf"), float("nan"), 1e38])
def test_a_non_finite_member_is_skipped_and_the_others_go_on(tiny_policy: Build, bad: float) -> None:
    policy, alone = twins(tiny_policy)
    policy.update(samples("a"))
    before_a, state = weights(policy, "a"), policy.state("a")
    rows = [
        Sample(member="a", prompt_ids=s.prompt_ids, token_ids=s.token_ids, logprobs=s.logprobs, advantage=bad)
        for s in samples("a")
    ]
    a, b = policy.update(rows + samples("b"))
    assert a.skipped == "non-finite gradient"
    assert b.skipped == ""
    assert torch.equal(before_a, weights(policy, "a"))
    assert all(torch.equal(state[k], v) for k, v in policy.state("a").items())
    # The other member moves as it does without a, and a's next update is as if this one had not been.
    alone.update(samples("a"))
    alone.update(samples("b"))
    torch.testing.assert_close(weights(policy, "b"), weights(alone, "b"), rtol=1e-4, atol=1e-5)
    assert policy.update(samples("a", 3))[0].skipped == ""
    alone.update(samples("a", 3))
    torch.testing.assert_close(weights(policy, "a"), weights(alone, "a"), rtol=1e-4, atol=1e-5)


def test_no_samples_are_no_update(tiny_policy: Build) -> None:
    assert tiny_policy().update([]) == []


def test_an_unknown_member_is_an_error(tiny_policy: Build) -> None:
    with pytest.raises(KeyError):
        tiny_policy().update(samples("nobody"))


def test_learning_rate_zero_moves_nothing(tiny_policy: Build) -> None:
    policy = tiny_policy(learning=LearningConfig(lr=0.0))
    before = weights(policy, "a")
    policy.update(samples("a"))
    assert torch.equal(before, weights(policy, "a"))


def test_lora_b_leaves_zero_after_one_step_from_a_fresh_start(tiny_policy: Build) -> None:
    policy = tiny_policy(learning=LearningConfig(lr=1e-2))
    policy.adapters.write("a", fresh(policy.shapes(), 4, torch.Generator().manual_seed(0)))
    policy.update(samples("a"))
    moved = [name for name, f in policy.adapter("a").items() if f.b.abs().max() > 0]
    assert moved == list(policy.adapters.places)


def test_clipping_bounds_the_step_of_each_member_on_its_own(tiny_policy: Build) -> None:
    tight, loose = (tiny_policy(learning=LearningConfig(lr=1e-2, clip=c)) for c in (1e-9, 1e9))
    # Adam is invariant to the gradient's scale until it comes near epsilon, and a gradient clipped to 1e-9 is below.
    t0, l0 = weights(tight, "a"), weights(loose, "a")
    tight.update(samples("a"))
    loose.update(samples("a"))
    assert (weights(tight, "a") - t0).abs().max() < 0.2 * (weights(loose, "a") - l0).abs().max()
    # One member's large gradient does not clip another member's.
    policy, alone = (tiny_policy(learning=LearningConfig(lr=1e-2, clip=1e-9)) for _ in range(2))
    policy.update(samples("a") + samples("b", advantage=100.0))
    alone.update(samples("a"))
    torch.testing.assert_close(weights(policy, "a"), weights(alone, "a"), rtol=0, atol=1e-6)


def test_the_base_keeps_its_fingerprint(tiny_policy: Build) -> None:
    policy = tiny_policy(learning=LearningConfig(lr=1e-1))
    before = fingerprint(policy.base.model)
    for _ in range(3):
        policy.update(samples("a") + samples("c"))
    assert fingerprint(policy.base.model) == before


@pytest.mark.usefixtures("both_ways")
def test_a_rewarded_text_becomes_likelier_and_a_punished_one_less_likely(tiny_policy: Build) -> None:
    def score(policy: TinyPolicy, rows: Sequence[Sample]) -> float:
        """Returns the mean log-probability of these texts: the negative loss at equal weights and learning rate 0."""
        still = tiny_policy(learning=LearningConfig(lr=0.0))
        still.adapters.write("a", policy.adapter("a"))
        plain = [
            Sample(member="a", prompt_ids=s.prompt_ids, token_ids=s.token_ids, logprobs=s.logprobs, advantage=1.0)
            for s in rows
        ]
        return -still.update(plain)[0].loss

    rows = samples("a", 4)
    for advantage in (1.0, -1.0):
        policy = tiny_policy(learning=LearningConfig(lr=1e-3))
        before = score(policy, rows)
        policy.update(
            [
                Sample(
                    member="a", prompt_ids=s.prompt_ids, token_ids=s.token_ids, logprobs=s.logprobs, advantage=advantage
                )
                for s in rows
            ]
        )
        assert (score(policy, rows) - before) * advantage > 0.01
