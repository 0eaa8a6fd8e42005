"""Compares shared-prefix attention, by plain products and as one call, with attention over separate sequences."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from benchmarks.gpu import stand_ins
from redqueen.engine.kernels.dispatch import GpuKernels, TorchKernels
from redqueen.engine.kernels.numba_kernels import NumbaKernels
from redqueen.engine.model import attention as module
from redqueen.engine.model.attention import SharedPrefix, SharedPrefixAttention

CPU = torch.device("cpu")
stand_ins.on_cpu()
# A GPU's way runs here in stand-ins for torch's kernels.
WAYS = {"plain": TorchKernels(), "varlen": GpuKernels()}
Shape = tuple[int, tuple[int, ...]]
"""The tokens of a prompt, and those of each continuation."""


def prefixes_of(shapes: list[Shape]) -> list[SharedPrefix]:
    """Returns prefixes of these shapes, one after the other in one batch."""
    prefixes: list[SharedPrefix] = []
    for prompt, tails in shapes:
        start = prefixes[-1].end if prefixes else 0
        prefixes.append(SharedPrefix(start, prompt, tails))
    return prefixes


def separate(prefixes: list[SharedPrefix], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Returns softmax(q kᵀ / sqrt D) v of each prompt alone, and of each continuation after a copy of the prompt."""
    groups = q.shape[1] // k.shape[1]
    out = torch.zeros_like(q)
    for prefix in prefixes:
        prompt = list(range(prefix.start, prefix.start + prefix.prompt))
        start = prefix.start + prefix.prompt
        sequences = [prompt]
        for tail in prefix.suffix_lengths:
            sequences.append(list(range(start, start + tail)))
            start += tail
        for rows in sequences:
            seen = rows if rows is prompt else prompt + rows
            keys, values = (t[seen].repeat_interleave(groups, 1) for t in (k, v))
            scores = torch.einsum("ihd,jhd->hij", q[seen], keys) * q.shape[-1] ** -0.5
            late = torch.ones(len(seen), len(seen)).triu(1).bool()
            mixed = torch.einsum("hij,jhd->ihd", scores.masked_fill(late, float("-inf")).softmax(-1), values)
            out = out.index_copy(0, torch.tensor(rows, dtype=torch.long), mixed[len(seen) - len(rows) :])
    return out


def inputs(tokens: int, kv_heads: int, groups: int, seed: int, dtype: torch.dtype) -> list[Tensor]:
    """Returns q, k, v and the gradient of the output."""
    g = torch.Generator().manual_seed(seed)
    heads = (kv_heads * groups, kv_heads, kv_heads, kv_heads * groups)
    return [torch.randn(tokens, count, 8, generator=g, dtype=torch.float64).to(dtype) for count in heads]


def attended(way: str, prefixes: list[SharedPrefix], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Returns the mixed values in one of the two ways; the compiled kernels stand in for torch's where they can."""
    kernels = WAYS[way]
    if way == "plain" and q.dtype != torch.float64:
        kernels = NumbaKernels()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "kernels_of", lambda _: kernels)
        return SharedPrefixAttention(prefixes, CPU)(0, q, k, v)


def check(shapes: list[Shape], kv_heads: int, groups: int, seed: int, tolerance: float, dtype: torch.dtype) -> None:
    """Asserts that output and gradients of both ways are those of the separate sequences in float64."""
    prefixes = prefixes_of(shapes)
    *qkv, dy = inputs(prefixes[-1].end, kv_heads, groups, seed, dtype)
    found: list[list[Tensor]] = []
    for attention in (
        lambda q, k, v: separate(prefixes, q, k, v),
        lambda q, k, v: attended("plain", prefixes, q, k, v),
        lambda q, k, v: attended("varlen", prefixes, q, k, v),
    ):
        wide = torch.float64 if not found else dtype
        leaves = [t.detach().to(wide).requires_grad_() for t in qkv]
        y = attention(*leaves)
        found.append([y.detach(), *torch.autograd.grad(y, leaves, dy.to(wide))])
    for results in found[1:]:
        for result, expected in zip(results, found[0], strict=True):
            assert result.dtype == dtype
            assert (result.double() - expected).abs().max() <= tolerance * max(1.0, expected.abs().max().item())


SHAPES = st.lists(
    st.tuples(st.integers(1, 6), st.lists(st.integers(0, 5), max_size=4).map(tuple)), min_size=1, max_size=4
)


@given(SHAPES, st.integers(1, 2), st.integers(1, 3), st.integers(0, 99))
def test_both_ways_are_attention_over_separate_sequences(
    shapes: list[Shape], kv_heads: int, groups: int, seed: int
) -> None:
    check(shapes, kv_heads, groups, seed, 1e-12, torch.float64)


# Each shape at least once: no continuation, one, even, uneven, some empty, all empty, a prompt of one token.
@pytest.mark.parametrize(
    "shape",
    [
        (5, ()),
        (5, (3,)),
        (5, (3, 3)),
        (5, (4, 1, 2)),
        (5, (0, 3)),
        (5, (0, 3, 0, 2)),
        (5, (0, 0)),
        (1, (2, 1)),
        (4, (1, 1)),
    ],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.03)])
def test_every_shape_of_a_shared_prefix_in_the_bases_dtypes(shape: Shape, dtype: torch.dtype, tolerance: float) -> None:
    for groups in (1, 3):
        check([(2, (1, 1)), shape, (3, ())], 2, groups, 0, tolerance, dtype)


@pytest.mark.parametrize("way", WAYS)
def test_the_gradients_are_derivatives(way: str) -> None:
    prefixes = prefixes_of([(2, (1, 2)), (1, (1,))])
    *qkv, _ = inputs(prefixes[-1].end, 1, 2, 0, torch.float64)
    leaves = [t.requires_grad_() for t in qkv]
    assert torch.autograd.gradcheck(lambda q, k, v: attended(way, prefixes, q, k, v), leaves)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_flows_back_in_time_nor_between_continuations_nor_between_prefixes(way: str) -> None:
    prefixes = prefixes_of([(3, (2, 2)), (2, ())])
    *qkv, _ = inputs(prefixes[-1].end, 1, 1, 0, torch.float64)
    # The rows that see row j. Rows 0-2 are a prompt, 3-4 and 5-6 its continuations, 7-8 another prompt.
    seen_by = [set(range(j, 7)) for j in range(3)] + [{3, 4}, {4}, {5, 6}, {6}, {7, 8}, {8}]
    before = attended(way, prefixes, *qkv)
    for j, expected in enumerate(seen_by):
        moved = [t.clone() for t in qkv]
        moved[1][j] += 1
        moved[2][j] += 1
        changed = (attended(way, prefixes, *moved) != before).flatten(1).any(1)
        assert set(changed.nonzero()[:, 0].tolist()) == expected


def test_large_scores_stay_finite() -> None:
    prefixes = prefixes_of([(3, (2, 1))])
    q, k, v, _ = inputs(6, 1, 2, 0, torch.float32)
    for way in WAYS:
        leaves = [t.clone().requires_grad_() for t in (1e4 * q, 1e4 * k, v)]
        y = attended(way, prefixes, *leaves)
        y.sum().backward()
        assert y.isfinite().all()
        assert all(t.grad is not None and t.grad.isfinite().all() for t in leaves)


def test_a_prompts_gradients_of_many_continuations_are_summed_in_fp32() -> None:
    # Each continuation adds 1 to the gradient of the prompt's value. Sums in bf16 would stop at 256, where 1 is lost.
    continuations = 400
    prefixes = prefixes_of([(1, (1,) * continuations)])
    q, k = (torch.zeros(1 + continuations, 1, 8, dtype=torch.bfloat16) for _ in range(2))
    v = torch.zeros_like(k).requires_grad_()
    attended("varlen", prefixes, q, k, v).sum().backward()
    assert v.grad is not None
    # A continuation's only row sees the prompt and itself, each with weight 1/2.
    assert v.grad[0, 0, 0] == torch.tensor(1 + continuations / 2).bfloat16()


def test_only_keys_are_laid_out_and_only_where_prompts_are_shared() -> None:
    def key_rows(shapes: list[Shape]) -> list[int] | None:
        rows = SharedPrefixAttention(prefixes_of(shapes), CPU).sequences.key_rows_M
        return None if rows is None else rows.tolist()

    assert key_rows([(2, (1,)), (3, ()), (1, (0, 2))]) is None
    assert key_rows([(2, (1, 2))]) == [0, 1, 0, 1, 2, 0, 1, 3, 4]
