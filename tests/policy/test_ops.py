"""The decoder's operations against transformers' own modules, forward and backward, and against finite differences."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, apply_rotary_pos_emb
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from redqueen.policy.ops import rms_norm, rotate, swiglu

DTYPES = [(torch.float32, 1e-5), (torch.bfloat16, 0.02)]


def agree(ours: Callable[[Tensor], Tensor], theirs: Callable[[Tensor], Tensor], x: Tensor, tolerance: float) -> None:
    """The same output and the same gradient of x, to `tolerance` of the largest number."""
    results: list[tuple[Tensor, Tensor]] = []
    for op in (ours, theirs):
        leaf = x.clone().requires_grad_()
        y = op(leaf)
        y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y.dtype))
        assert leaf.grad is not None
        results.append((y.detach(), leaf.grad))
        with torch.no_grad():  # a path of its own
            assert torch.equal(op(x), y)
    for mine, other in zip(*results, strict=True):
        assert mine.dtype == other.dtype == x.dtype
        assert mine.shape == other.shape
        assert (mine.double() - other.double()).abs().max() <= tolerance * max(1.0, other.abs().max().item())


def angles(tokens: int, size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin [N, 1, D] of every angle, both halves alike as rotary embeddings have them."""
    angle = torch.rand(tokens, 1, size // 2, generator=torch.Generator().manual_seed(2)).repeat(1, 1, 2) * 6.3
    return angle.cos().to(dtype), angle.sin().to(dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("shape", [(5, 12), (1, 12), (5, 3, 12)])
@pytest.mark.parametrize("module", [LlamaRMSNorm, Qwen3RMSNorm])
def test_the_norm_is_that_of_transformers(
    module: type[torch.nn.Module], dtype: torch.dtype, tolerance: float, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    norm = module(12, eps=1e-5).to(dtype)
    with torch.no_grad():
        norm.weight.normal_()
    x = (3 * torch.randn(shape)).to(dtype)
    agree(lambda x: rms_norm(x, norm.weight.detach(), 1e-5), norm, x, tolerance)


def test_rows_of_zeros_and_of_large_numbers_stay_finite() -> None:
    x = torch.tensor([[0.0] * 4, [3e4] * 4], dtype=torch.bfloat16, requires_grad=True)
    y = rms_norm(x, torch.ones(4, dtype=torch.bfloat16), 1e-6)
    y.sum().backward()
    assert y.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_the_rotation_is_that_of_transformers(dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    cos, sin = angles(5, 8, dtype)

    def theirs(x: Tensor) -> Tensor:
        # [batch, heads, tokens, D]
        turned, _ = apply_rotary_pos_emb(
            x.transpose(0, 1)[None], x.transpose(0, 1)[None], cos[None, :, 0], sin[None, :, 0]
        )
        return turned[0].transpose(0, 1)

    agree(lambda x: rotate(x, cos, sin), theirs, torch.randn(5, 3, 8).to(dtype), tolerance)


def test_a_rotation_keeps_lengths_and_the_backward_pass_turns_back() -> None:
    cos, sin = angles(4, 6, torch.float64)
    x = torch.randn(4, 2, 6, dtype=torch.float64, requires_grad=True)
    y = rotate(x, cos, sin)
    torch.testing.assert_close(y.norm(dim=-1), x.norm(dim=-1))
    y.backward(y.detach())
    torch.testing.assert_close(x.grad, x.detach())


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_the_activation_is_that_of_transformers(dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    mlp = LlamaMLP(LlamaConfig(hidden_size=32, intermediate_size=6, hidden_act="silu"))

    def theirs(both: Tensor) -> Tensor:
        gate, up = both.chunk(2, -1)
        return mlp.act_fn(gate) * up

    agree(swiglu, theirs, 4 * torch.randn(5, 12).to(dtype), tolerance)


def test_the_gradients_are_derivatives() -> None:
    torch.manual_seed(0)
    x, cos_sin = torch.randn(3, 2, 8, dtype=torch.float64, requires_grad=True), angles(3, 8, torch.float64)
    assert torch.autograd.gradcheck(lambda x: rotate(x, *cos_sin), (x,))
    both = torch.randn(3, 10, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(swiglu, (both,))
    # the norm computes in float32 whatever comes in: finite differences as wide as that allows
    weight = torch.randn(8, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: rms_norm(x, weight, 1e-5), (x,), eps=1e-3, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("op", ["norm", "rotation", "activation"])
def test_no_input_is_written_to(op: str) -> None:
    x = torch.randn(4, 3, 8, requires_grad=True)
    before, cos_sin = x.detach().clone(), angles(4, 8, torch.float32)
    y = {
        "norm": lambda: rms_norm(x, torch.ones(8), 1e-5),
        "rotation": lambda: rotate(x, *cos_sin),
        "activation": lambda: swiglu(x),
    }[op]()
    dy = torch.randn(y.shape)
    kept = dy.clone()
    y.backward(dy)
    assert torch.equal(x, before)
    assert torch.equal(dy, kept)
