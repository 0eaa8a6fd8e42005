"""The importance ratio makes a gradient on-policy that was sampled by somebody else; stale weights stop the update."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from redqueen.config import LearningConfig, SamplingConfig
from redqueen.engine.learning.gradients import ForwardOptions, RatioStats, accumulate, importance_ratios
from redqueen.engine.learning.packing import WeightedSample, micro_batches
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import Base
from redqueen.errors import MismatchError
from redqueen.records import Completion, Sample
from tests.engine.conftest import Build, TinyPolicy
from tests.engine.requests import request
from tests.engine.samples import weights
from tests.reference import merged, noisy

OFF = ForwardOptions(temperature=1.0, checkpointing=False)


def test_ratios_are_truncated_and_a_text_that_nobody_sampled_counts_as_it_is() -> None:
    learner = torch.tensor([-1.0, -1.0, -1.0, -9.0], requires_grad=True)
    sampler = torch.tensor([-1.5, -3.0, math.nan, -1.0])
    ratios = importance_ratios(learner, sampler, 2.0)
    assert ratios.ratio_S.tolist() == pytest.approx([math.exp(0.5), 2.0, 1.0, math.exp(-8)])
    assert not ratios.ratio_S.requires_grad
    stats = RatioStats(*ratios.sums_5S.sum(1).tolist())
    assert (stats.tokens, stats.clipped) == (3, 1)
    assert stats.mean_gap == pytest.approx((0.5 + 2 + 8) / 3)
    summary = stats.summary()
    assert summary is not None
    used = ratios.ratio_S[[0, 1, 3]].double()
    assert (summary.mean, summary.std) == pytest.approx((float(used.mean()), float(used.std(correction=0))))
    assert summary.clipped == pytest.approx(1 / 3)
    assert RatioStats().summary() is None


def test_a_tiny_spread_keeps_its_digits() -> None:
    sampler = torch.zeros(1000, dtype=torch.float64)
    learner = torch.linspace(-1e-7, 1e-7, 1000, dtype=torch.float64)
    summary = RatioStats(*importance_ratios(learner, sampler, 2.0).sums_5S.sum(1).tolist()).summary()
    assert summary is not None
    assert summary.std == pytest.approx(float(learner.std(correction=0)), rel=1e-3)


# Every token of the vocabulary is one text, weighted by its probability under the sampler, so a sum over them is the
# expectation of the update without an error of sampling.
@pytest.mark.parametrize("seed", range(3))
def test_the_expected_update_moves_towards_that_of_the_learners_own_texts(
    bases: Callable[[str], Base], seed: int
) -> None:
    base = bases("llama")
    bank = AdapterBank(base.decoder.sites, 2, 4, 8.0, ("q_proj", "down_proj"))
    bank.add("learner", noisy(bank, seed))
    bank.add("sampler", noisy(bank, 10 + seed))
    prompt = (3, 1, 4, 1, 5)

    def logprobs(name: str) -> Tensor:
        with torch.no_grad():
            return merged(base, bank, name)(torch.tensor([prompt])).logits[0, -1].log_softmax(-1)

    own_V, other_V = logprobs("learner"), logprobs("sampler")
    advantage_V = torch.randn(len(own_V), generator=torch.Generator().manual_seed(seed))

    def expected(writer_V: Tensor, options: ForwardOptions) -> Tensor:
        items: list[WeightedSample] = []
        for token, logprob in enumerate(writer_V.tolist()):
            sample = Sample(member="", prompt_ids=prompt, token_ids=(token,), logprobs=(logprob,), advantage=1.0)
            items.append(WeightedSample(sample, 0, math.exp(logprob) * float(advantage_V[token])))
        gradients = bank.gradients()
        for groups in micro_batches(items, 4096):
            accumulate(base.decoder, bank, gradients, groups, options)
        return gradients.flat[0]

    on_policy = expected(own_V, OFF)

    def error(cap: float | None) -> float:
        options = OFF if cap is None else ForwardOptions(1.0, False, ratio_cap=cap, corrected=True)
        return float((expected(other_V, options) - on_policy).norm() / on_policy.norm())

    assert error(1e9) < 1e-4
    assert error(4.0) < error(2.0) < error(None)


def written(policy: TinyPolicy, count: int = 6) -> list[Completion]:
    return policy.sample([request("abc"[i % 3], "x" * (2 + i), i, 8) for i in range(count)])


def as_samples(completions: list[Completion]) -> list[Sample]:
    return [
        Sample(
            member=one.member,
            prompt_ids=one.prompt_ids,
            token_ids=one.token_ids,
            logprobs=one.logprobs,
            advantage=(-1.0) ** i,
        )
        for i, one in enumerate(completions)
    ]


def test_where_sampler_and_learner_are_one_the_ratio_changes_rounding_only(tiny_policy: Build) -> None:
    on, off = (tiny_policy(learning=LearningConfig(importance_ratio=mode)) for mode in ("truncated", "off"))
    rows = as_samples(written(on))
    for one, other in zip(on.update(rows), off.update(rows), strict=True):
        assert (one.loss, one.grad_norm) == pytest.approx((other.loss, other.grad_norm), rel=1e-3)
        for ratio in (one.ratio, other.ratio):
            assert ratio is not None
            assert ratio.mean == pytest.approx(1, abs=1e-4)
            assert 0 < ratio.std < 1e-4
            assert ratio.clipped == 0


def test_stale_weights_stop_the_update_before_anybody_has_moved(tiny_policy: Build) -> None:
    policy = tiny_policy(learning=LearningConfig(lr=1e-2))
    rows = as_samples(written(policy))
    # The engine goes on with the old weights of one member, which have been replaced here.
    policy.adapters.write("b", noisy(policy.adapters, 77))
    before = {member: weights(policy, member) for member in "abc"}
    with pytest.raises(MismatchError, match=r"^b: .* nats a token.*learning.max_logprob_gap=0.5"):
        policy.update(rows)
    assert all(torch.equal(weights(policy, member), row) for member, row in before.items())
    assert policy.version("a") == 1
    forgiving = tiny_policy(learning=LearningConfig(max_logprob_gap=100))
    forgiving.adapters.write("b", noisy(forgiving.adapters, 77))
    ratio = forgiving.update(rows)[1].ratio
    assert ratio is not None
    assert ratio.clipped > 0


def test_truncated_sampling_is_no_sign_of_stale_weights(tiny_policy: Build) -> None:
    policy = tiny_policy(sampling=SamplingConfig(top_k=2))
    requests = [request("a", "x" * i, i, 8, top_k=2) for i in range(1, 5)]
    (update,) = policy.update(as_samples(policy.sample(requests)))
    assert update.logprob_gap > 0.5
    assert update.ratio is not None
    assert update.ratio.mean < 1, "what can be drawn is likelier to the sampler"
