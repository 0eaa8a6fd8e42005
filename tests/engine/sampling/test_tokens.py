"""Tokens follow the distribution, also at its ends and when top-k and top-p cut some off."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from redqueen.engine.sampling.tokens import SampledTokens, SamplingTensors, sample_tokens
from redqueen.records import SamplingParams

# Sizes below, at and above the block of 256, and far from its multiples.
VOCABULARIES = [1, 3, 255, 256, 257, 700, 1024]


def sample(
    logits_RV: Tensor, uniform_R: Tensor, temperature: float, top_p: float = 1.0, top_k: int = 0
) -> SampledTokens:
    """Samples all rows with the same parameters."""
    params = SamplingParams(max_tokens=1, temperature=temperature, top_p=top_p, top_k=top_k)
    return sample_tokens(logits_RV, uniform_R, SamplingTensors.of([params] * len(logits_RV)))


def grid(rows: int) -> Tensor:
    """Returns evenly spread uniforms: with them, counts differ from the probabilities by one row at most."""
    return (torch.arange(rows, dtype=torch.float64) + 0.5).div(rows).float()


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_follow_the_distribution_at_the_temperature(vocabulary: int, temperature: float) -> None:
    logits = 2 * torch.randn(vocabulary, generator=torch.Generator().manual_seed(0))
    rows = 4000
    sampled = sample(logits.expand(rows, -1), grid(rows), temperature)
    p = (logits.double() / temperature).softmax(-1)
    count = torch.bincount(sampled.token_R, minlength=vocabulary)
    assert len(count) == vocabulary
    assert (count - rows * p).abs().max() <= 1.01
    expected = p.log()[sampled.token_R]
    torch.testing.assert_close(sampled.logprob_R.double(), expected, atol=1e-5, rtol=1e-5)


@given(st.sampled_from(VOCABULARIES), st.integers(0, 999))
def test_a_token_is_the_inverse_of_the_cumulative_probability(vocabulary: int, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(6, vocabulary, generator=g)
    uniform = torch.rand(6, generator=g)
    token = sample(logits, uniform, 1.0).token_R[:, None]
    p = logits.double().softmax(-1)
    upper = p.cumsum(-1).gather(1, token)[:, 0]
    lower = upper - p.gather(1, token)[:, 0]
    assert (lower - 1e-6 <= uniform).all()
    assert (uniform <= upper + 1e-6).all()


# A float64 uniform below 1 can round to exactly 1 in float32.
@given(st.sampled_from(VOCABULARIES), st.integers(0, 999), st.sampled_from([0, 1, 2, 5]), st.sampled_from([0.3, 1.0]))
def test_extreme_uniforms_give_the_first_and_the_last_token_that_can_be_sampled(
    vocabulary: int, seed: int, top_k: int, top_p: float
) -> None:
    g = torch.Generator().manual_seed(seed)
    logits = torch.randn(vocabulary, generator=g)
    impossible = torch.rand(vocabulary, generator=g) < 0.5
    impossible[torch.randint(vocabulary, (1,), generator=g)] = False
    logits = logits.masked_fill(impossible, float("-inf"))
    sampled = sample(logits.expand(2, -1), torch.tensor([0.0, 1.0]), 1.0, top_p, top_k)
    possible = support(logits, 1.0, top_p, top_k)
    assert sampled.token_R.tolist() == [possible[0], possible[-1]]
    assert sampled.logprob_R.isfinite().all()


def support(logits: Tensor, temperature: float, top_p: float, top_k: int) -> list[int]:
    """Returns the tokens that can be sampled, in ascending order, straight from the definition of top-k and top-p."""
    p = (logits.double() / temperature).softmax(-1)
    order = [int(i) for i in p.argsort(descending=True) if p[i] > 0]
    kept = order[:top_k] if top_k else order
    mass = 0.0
    total = float(p[kept].sum())
    for count, token in enumerate(kept, 1):
        mass += float(p[token]) / total
        if mass >= top_p - 1e-9:
            return sorted(kept[:count])
    return sorted(kept)


@pytest.mark.parametrize(
    ("top_p", "top_k"), [(1.0, 1), (1.0, 3), (1.0, 1000), (0.01, 0), (0.5, 0), (0.9, 0), (0.9, 3), (0.2, 2)]
)
@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("vocabulary", [5, 300])
def test_only_the_likeliest_are_sampled_and_their_probabilities_add_up_to_one(
    vocabulary: int, temperature: float, top_p: float, top_k: int
) -> None:
    logits = 2 * torch.randn(vocabulary, generator=torch.Generator().manual_seed(3))
    rows = 4000
    sampled = sample(logits.expand(rows, -1), grid(rows), temperature, top_p, top_k)
    kept = support(logits, temperature, top_p, top_k)
    p = (logits.double() / temperature).softmax(-1)
    p = torch.zeros_like(p).index_copy_(0, torch.tensor(kept), p[kept])
    p /= p.sum()
    count = torch.bincount(sampled.token_R, minlength=vocabulary)
    assert set(count.nonzero()[:, 0].tolist()) <= set(kept)
    assert (count - rows * p).abs().max() <= 1.01
    torch.testing.assert_close(sampled.logprob_R.double(), p.log()[sampled.token_R], atol=1e-5, rtol=1e-5)


def test_the_fewest_that_reach_top_p_are_kept() -> None:
    logits = torch.tensor([0.5, 0.25, 0.125, 0.125]).log()
    for top_p, kept in ((0.4, 1), (0.5, 1), (0.51, 2), (0.75, 2), (0.8, 3)):
        tokens = sample(logits.expand(100, -1), grid(100), 1.0, top_p).token_R
        assert set(tokens.tolist()) == set(range(kept)), top_p


def test_nearly_zero_temperature_takes_the_likeliest() -> None:
    logits = torch.randn(50, 300, generator=torch.Generator().manual_seed(0))
    sampled = sample(logits, torch.rand(50, generator=torch.Generator().manual_seed(1)), 1e-5)
    assert torch.equal(sampled.token_R, logits.argmax(-1))
    torch.testing.assert_close(sampled.logprob_R, torch.zeros(50))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_logits_are_sampled_row_by_row_and_stay_as_they_were(dtype: torch.dtype) -> None:
    logits = (1e3 * torch.randn(4, 600)).to(dtype)
    kept = logits.clone()
    uniform = torch.tensor([0.1, 0.9, 0.5, 1.0])
    sampled = sample(logits, uniform, 1.0)
    assert torch.equal(logits, kept)
    assert sampled.logprob_R.dtype == torch.float32
    for r in range(4):
        alone = sample(logits[r : r + 1], uniform[r : r + 1], 1.0)
        assert alone.token_R == sampled.token_R[r]
        torch.testing.assert_close(alone.logprob_R[0], sampled.logprob_R[r])


MIXED = [
    SamplingParams(max_tokens=1),
    SamplingParams(max_tokens=1, temperature=0.0),
    SamplingParams(max_tokens=1, temperature=0.7),
    SamplingParams(max_tokens=1, top_k=3),
    SamplingParams(max_tokens=1, temperature=1.4, top_p=0.6),
    SamplingParams(max_tokens=1, temperature=0.0, top_p=0.1, top_k=2),
    SamplingParams(max_tokens=1, top_p=0.4, top_k=9),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@given(st.integers(0, 999))
def test_rows_of_different_parameters_are_what_each_is_alone(dtype: torch.dtype, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    logits = (2 * torch.randn(len(MIXED), 300, generator=g)).to(dtype)
    uniform = torch.rand(len(MIXED), generator=g)
    together = sample_tokens(logits, uniform, SamplingTensors.of(MIXED))
    for r, params in enumerate(MIXED):
        row = slice(r, r + 1)
        alone = sample_tokens(logits[row], uniform[row], SamplingTensors.of([params]))
        assert torch.equal(alone.token_R, together.token_R[row])
        # Not to the bit: vectorised and scalar logarithms round differently, and the place in the batch decides which
        # of them is used.
        torch.testing.assert_close(alone.logprob_R, together.logprob_R[row], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("top_k", [0, 1, 5])
@pytest.mark.parametrize("top_p", [1.0, 0.2])
def test_greedy_is_the_argmax_and_its_log_probability_is_the_whole_distributions(top_p: float, top_k: int) -> None:
    logits = torch.randn(50, 300, generator=torch.Generator().manual_seed(0))
    sampled = sample(logits, torch.rand(50, generator=torch.Generator().manual_seed(1)), 0.0, top_p, top_k)
    assert torch.equal(sampled.token_R, logits.argmax(-1))
    expected = logits.double().log_softmax(-1).amax(-1)
    torch.testing.assert_close(sampled.logprob_R.double(), expected, atol=1e-5, rtol=1e-5)
