"""The entropy bonus: a token's surprise is added to its advantage, up to half of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from redqueen.config import LearningConfig
from redqueen.engine.learning.gradients import ForwardOptions, accumulate, with_entropy_bonus
from redqueen.engine.learning.learner import token_weights
from redqueen.engine.learning.packing import WeightedSample, micro_batches
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import Base
from redqueen.records import Sample
from tests.engine.conftest import Build
from tests.engine.samples import samples
from tests.reference import gradient, merged, noisy


def test_the_bonus_by_hand() -> None:
    # Each token weighs 1/5 in the loss. The advantages are 1, 1, -1, -1 and 0.1.
    advantage_S = torch.tensor([1.0, 1.0, -1.0, -1.0, 0.1])
    logp_S = torch.tensor([-0.5, -9.0, -0.5, -9.0, -0.5], requires_grad=True)
    weight_S = with_entropy_bonus(advantage_S / 5, advantage_S, logp_S, 0.4)
    # 0.4 x 0.5 is added, or half of the advantage's size.
    assert weight_S.tolist() == pytest.approx([1.2 / 5, 1.5 / 5, -0.8 / 5, -0.5 / 5, 0.15 / 5])
    assert not weight_S.requires_grad


def test_the_gradient_is_that_of_the_plain_loss_with_the_bonus_in_the_advantage(tiny_policy: Build) -> None:
    alpha = 0.1
    policy = tiny_policy(learning=LearningConfig(lr=0.0, clip=1e9, entropy_bonus=alpha))
    rows = samples("a", 5)
    per_token = token_weights(rows, "token_mean")
    model = merged(policy.base, policy.adapters, "a")
    # Each token is a text of its own here, which continues the tokens before it.
    plain: list[tuple[Sample, float]] = []
    for row, weight in zip(rows, per_token, strict=True):
        for place, token in enumerate(row.token_ids):
            before = row.prompt_ids + row.token_ids[:place]
            with torch.no_grad():
                surprise = -float(model(torch.tensor([before])).logits[0, -1].log_softmax(-1)[token])
            bonus = min(alpha * surprise, abs(row.advantage) / 2)
            one = replace(row, prompt_ids=before, token_ids=(token,))
            plain.append((one, weight * (row.advantage + bonus)))
    loss, expected = gradient(policy.base, policy.adapters, "a", plain)
    (update,) = policy.update(rows)
    assert update.loss == pytest.approx(loss, rel=1e-4)
    (state,) = policy.learner.optimizers["a"].state.values()
    actual = state["exp_avg"] / (1 - policy.learner.config.beta1)
    torch.testing.assert_close(actual, expected, atol=1e-4 * float(expected.abs().max()), rtol=0)


def test_on_average_over_the_draws_the_bonus_raises_the_entropy_of_the_next_token(
    bases: Callable[[str], Base],
) -> None:
    base = bases("llama")
    bank = AdapterBank(base.decoder.sites, 2, 4, 8.0, ("q_proj", "down_proj"))
    bank.add("a", noisy(bank))
    prompt = (3, 1, 4, 1, 5)

    def logprobs() -> Tensor:
        with torch.no_grad():
            return merged(base, bank, "a")(torch.tensor([prompt])).logits[0, -1].log_softmax(-1)

    def entropy() -> float:
        return -float((logprobs().exp() * logprobs()).sum())

    # Every token of the vocabulary is a text that counts with its probability, and none is better than another: without
    # the bonus the expected update is 0. The advantage is large enough for no bonus to reach its bound.
    items: list[WeightedSample] = []
    for token, logprob in enumerate(logprobs().tolist()):
        sample = Sample(member="a", prompt_ids=prompt, token_ids=(token,), logprobs=(logprob,), advantage=40.0)
        items.append(WeightedSample(sample, 0, 40.0 * float(torch.tensor(logprob).exp())))
    gradients = bank.gradients()
    for groups in micro_batches(items, 4096):
        accumulate(base.decoder, bank, gradients, groups, ForwardOptions(1.0, False, entropy_bonus=1.0))
    downhill = -gradients.flat[0]
    before = entropy()
    step = 1e-3 / float(downhill.norm())
    bank.masters[0] += step * downhill
    bank.refresh("a")
    # The loss's gradient is minus that of the entropy, so the step's gain is known.
    assert entropy() - before == pytest.approx(step * float(downhill.square().sum()), rel=0.05)
