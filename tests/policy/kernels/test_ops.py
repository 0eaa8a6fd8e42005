"""The decoder's operations against transformers' own modules, forward and backward, and against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, apply_rotary_pos_emb
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from redqueen.policy.kernels.ops import Angles, LoopOps, Ops, TorchOps, ops_of

EPS = 1e-5
DTYPES = [(torch.float32, 1e-5), (torch.bfloat16, 0.02)]
Function = Callable[..., Tensor | tuple[Tensor, ...]]


def angles(tokens: int, half: int) -> Angles:
    angle = 6.3 * torch.rand(tokens, half, generator=torch.Generator().manual_seed(2))
    return Angles(angle.cos(), angle.sin())


def by_loops(dtype: torch.dtype, tokens: int = 5) -> Ops:
    del dtype
    return LoopOps(angles(tokens, 4), EPS)


def by_torch(dtype: torch.dtype, tokens: int = 5) -> Ops:
    return TorchOps(angles(tokens, 4), EPS, dtype)


Way = Callable[..., Ops]
both_ways = pytest.mark.parametrize("way", [by_loops, by_torch])


def results(function: Function, inputs: Sequence[Tensor]) -> list[Tensor]:
    """What it computes, and the gradients of its inputs for random ones of its results."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    made = function(*leaves)
    outputs = [made] if isinstance(made, Tensor) else list(made)
    generator = torch.Generator().manual_seed(1)
    slopes = [torch.randn(y.shape, generator=generator).to(y.dtype) for y in outputs]
    kept = [slope.clone() for slope in slopes]
    torch.autograd.backward(outputs, slopes)
    assert all(torch.equal(x, y) for x, y in zip([*leaves, *slopes], [*inputs, *kept], strict=True)), "written to"
    with torch.no_grad():
        again = function(*inputs)
        assert all(map(torch.equal, [again] if isinstance(again, Tensor) else again, outputs))
    grads = [leaf.grad for leaf in leaves]
    return [*(y.detach() for y in outputs), *(grad for grad in grads if grad is not None)]


def agree(found: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float) -> None:
    """To `tolerance` of the largest number of each."""
    for mine, other in zip(found, expected, strict=True):
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        assert (mine.double() - other.double()).abs().max() <= tolerance * max(1.0, other.abs().max().item())


@both_ways
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("module", [LlamaRMSNorm, Qwen3RMSNorm])
def test_norms_are_those_of_transformers(
    module: type[torch.nn.Module], dtype: torch.dtype, tolerance: float, rows: int, way: Way
) -> None:
    torch.manual_seed(0)
    norm = module(12, eps=EPS).to(dtype).requires_grad_(False)
    norm.weight.normal_()
    x, y = (3 * torch.randn(2, rows, 12)).to(dtype)
    ops = way(dtype)
    agree(results(lambda x: ops.norm(x, None, norm.weight), [x]), results(lambda x: (1 * x, norm(x)), [x]), tolerance)
    agree(
        results(lambda x, y: ops.norm(x, y, norm.weight), [x, y]),
        results(lambda x, y: (x + y, norm(x + y)), [x, y]),
        tolerance,
    )


@both_ways
def test_rows_of_zeros_and_of_large_numbers_stay_finite(way: Way) -> None:
    x = torch.tensor([[0.0] * 4, [3e4] * 4], dtype=torch.bfloat16)
    for found in results(lambda x: way(x.dtype).norm(x, None, torch.ones(4, dtype=x.dtype)), [x]):
        assert found.isfinite().all()


@both_ways
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "tokens"), [(3, 1, 5), (4, 2, 1), (2, 2, 5)])
def test_heads_are_those_of_transformers(
    heads: int, kv_heads: int, tokens: int, normed: bool, dtype: torch.dtype, tolerance: float, way: Way
) -> None:
    torch.manual_seed(0)
    turns = angles(tokens, 4)
    cos, sin = (half.repeat(1, 2).to(dtype)[None] for half in (turns.cos, turns.sin))
    norms = [Qwen3RMSNorm(8, eps=EPS).to(dtype).requires_grad_(False) for _ in range(2)]
    for norm in norms:
        norm.weight.normal_()

    def theirs(qkv: Tensor) -> tuple[Tensor, ...]:
        q, k, v = qkv.split([heads, kv_heads, kv_heads], 1)
        if normed:
            q, k = norms[0](q), norms[1](k)
        # [batch, heads, tokens, D]
        turned = apply_rotary_pos_emb(q.transpose(0, 1)[None], k.transpose(0, 1)[None], cos, sin)
        return *(x[0].transpose(0, 1) for x in turned), v

    weights = [norm.weight if normed else None for norm in norms]
    qkv = torch.randn(tokens, heads + 2 * kv_heads, 8).to(dtype)
    found = results(lambda x: way(dtype, tokens).heads(x, kv_heads, *weights), [qkv])
    agree(found, results(theirs, [qkv]), tolerance)


@both_ways
def test_a_rotation_keeps_lengths_and_the_backward_pass_turns_back(way: Way) -> None:
    x = torch.randn(5, 3, 8, requires_grad=True)
    made = way(torch.float32).heads(x, 1, None, None)
    for i, part in enumerate(made):
        torch.testing.assert_close(part.norm(dim=-1), x[:, i : i + 1].norm(dim=-1))
    torch.autograd.backward(made, [part.detach() for part in made])
    torch.testing.assert_close(x.grad, x.detach())


@both_ways
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_the_activation_is_that_of_transformers(dtype: torch.dtype, tolerance: float, way: Way) -> None:
    torch.manual_seed(0)
    mlp = LlamaMLP(LlamaConfig(hidden_size=32, intermediate_size=6, hidden_act="silu"))

    def theirs(both: Tensor) -> Tensor:
        gate, up = both.chunk(2, -1)
        return mlp.act_fn(gate) * up

    both = 4 * torch.randn(5, 12).to(dtype)
    agree(results(way(dtype).swiglu, [both]), results(theirs, [both]), tolerance)


def test_the_gradients_are_derivatives() -> None:
    torch.manual_seed(0)
    ops = by_torch(torch.float64, tokens=3)
    qkv, both = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4, 8), (3, 10)))
    assert torch.autograd.gradcheck(lambda x: ops.heads(x, 1, None, None), (qkv,))
    assert torch.autograd.gradcheck(ops.swiglu, (both,))
    # the norm computes in float32 whatever comes in: finite differences as wide as that allows
    weight = torch.randn(10, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: ops.norm(x, None, weight), (both,), eps=1e-3, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["norm", "swiglu"])
def test_strides_and_expanded_gradients_change_nothing(name: str, dtype: torch.dtype) -> None:
    ops, weight, wide = by_loops(dtype), torch.randn(8).to(dtype), torch.randn(5, 2, 8).to(dtype)
    leaves = [x.detach().requires_grad_() for x in (wide[:, 1], wide[:, 1].contiguous())]
    for leaf in leaves:
        (ops.norm(leaf, None, weight)[1] if name == "norm" else ops.swiglu(leaf)).sum().backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad)


def test_the_dtype_chooses() -> None:
    for dtype, kind in ((torch.bfloat16, LoopOps), (torch.float32, LoopOps), (torch.float64, TorchOps)):
        assert isinstance(ops_of(torch.zeros(1, 1, dtype=dtype), angles(1, 1), EPS), kind)
