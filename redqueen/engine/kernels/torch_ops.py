"""The decoder's small operations as plain functions of torch, forward and backward, and their gradients for autograd.

The kernels call them as they are or compiled: a compiler turns each into one or two passes over memory. Norms compute
in fp32, as in transformers. The functions for autograd at the end take any `Ops`, and save and write as little as they
can. Products with packed weights stand below them.

Shape suffixes: N rows, H features, D head size, F intermediate size, V vocabulary, C rows of a chunk, M taken rows, I
inputs, O outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

# Shares are computed as powers of two: a CPU's exp2 takes a third of the time of its exp.
NATS_PER_BIT = math.log(2)

_Function = TypeVar("_Function", bound=Callable[..., object])


class HeadNorms(NamedTuple):
    """The norms of the heads of queries and keys, in models that have them."""

    q: Tensor
    """The weight [D] for queries."""
    k: Tensor
    """The weight [D] for keys."""
    eps: float


def rms_norm(x_NH: Tensor, weight_H: Tensor, eps: float) -> Tensor:
    """Returns w * x / rms(x) over the last axis."""
    # As in transformers, the unit vector is rounded to the input's dtype before the weight multiplies it.
    wide_NH = x_NH.float()
    return (wide_NH * _inverse_rms(wide_NH, eps)).to(x_NH.dtype) * weight_H


def add_norm(x_NH: Tensor, y_NH: Tensor, weight_H: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Returns s = x + y and w * s / rms(s)."""
    stream_NH = x_NH + y_NH
    return stream_NH, rms_norm(stream_NH, weight_H, eps)


def norm_backward(dy_NH: Tensor, past_NH: Tensor, stream_NH: Tensor, weight_H: Tensor, eps: float) -> Tensor:
    """Returns the gradient of the stream: that of its norm, plus `past` that reaches it from later blocks."""
    wide = torch.promote_types(stream_NH.dtype, torch.float32)
    norm_part_NH = _rms_norm_backward(dy_NH, stream_NH, weight_H, eps)
    return (past_NH.to(wide) + norm_part_NH.to(wide)).to(stream_NH.dtype)


def heads(qkv_NHD: Tensor, cos: Tensor, sin: Tensor, kv_heads: int, norms: HeadNorms | None) -> Tensor:
    """Returns the heads of q, k and v [N, heads, D]; q and k are normed, if there are norms, and rotated."""
    # The values are copied along: a view of them would keep the memory of all of `qkv` alive.
    turning = qkv_NHD.shape[1] - kv_heads
    qk = qkv_NHD[:, :turning]
    if norms is not None:
        qk = rms_norm(qk, _by_head(qk, kv_heads, norms), norms.eps)
    return torch.cat([_rotated(qk, cos, sin), qkv_NHD[:, turning:]], 1)


def heads_backward(
    dq: Tensor, dk: Tensor, dv: Tensor, cos: Tensor, sin: Tensor, qkv_NHD: Tensor | None, norms: HeadNorms | None
) -> Tensor:
    """Returns the gradient of qkv [N, heads, D]; `qkv` is needed only if there are norms."""
    # A rotation is orthogonal, so its gradient is rotated back by the negative angle.
    d_qk = _rotated(torch.cat([dq, dk], 1), cos, -sin)
    if qkv_NHD is not None and norms is not None:
        qk = qkv_NHD[:, : d_qk.shape[1]]
        d_qk = _rms_norm_backward(d_qk, qk, _by_head(qk, dk.shape[1], norms), norms.eps).to(qk.dtype)
    return torch.cat([d_qk, dv], 1)


def swiglu(both_N2F: Tensor) -> Tensor:
    """Returns silu(gate) * up [N, F] for gate and up side by side."""
    gate_NF, up_NF = both_N2F.chunk(2, -1)
    return F.silu(gate_NF) * up_NF


def swiglu_backward(dy_NF: Tensor, both_N2F: Tensor) -> Tensor:
    """Returns the gradient of gate and up side by side [N, 2F]."""
    # silu(gate) is computed a second time, so that the forward pass does not have to save it.
    gate_NF, up_NF = both_N2F.chunk(2, -1)
    d_gate_NF = torch.ops.aten.silu_backward(dy_NF * up_NF, gate_NF)
    return torch.cat([d_gate_NF, F.silu(gate_NF) * dy_NF], -1)


def token_shares(logits_CV: Tensor, target_C: Tensor, temperature: float, share: torch.dtype) -> tuple[Tensor, Tensor]:
    """Returns the targets' log-probabilities [C] in fp32, and every token's probability [C, V] in dtype `share`."""
    bits_CV = logits_CV.float() * (1 / (temperature * NATS_PER_BIT))
    mass_CV = torch.exp2(bits_CV - bits_CV.amax(-1, keepdim=True))
    total_C1 = mass_CV.sum(-1, keepdim=True)
    chosen_C1 = bits_CV.gather(1, target_C[:, None]) - bits_CV.amax(-1, keepdim=True)
    logp_C = (chosen_C1 - total_C1.log2())[:, 0] * NATS_PER_BIT
    return logp_C, (mass_CV / total_C1).to(share)


def sum_rows(total: Tensor, index_M: Tensor, dy: Tensor) -> Tensor:
    """Adds each row of dy to the row `index` of `total`, in place; returns `total` in the dtype of dy."""
    return total.index_add_(0, index_M, dy.to(total.dtype)).to(dy.dtype)


def _inverse_rms(wide_NH: Tensor, eps: float) -> Tensor:
    """Returns 1 / rms(x) [N, 1]."""
    return (wide_NH.square().mean(-1, keepdim=True) + eps).rsqrt()


def _rms_norm_backward(dy_NH: Tensor, x_NH: Tensor, weight_H: Tensor, eps: float) -> Tensor:
    """Returns the gradient of x, in fp32 before it is rounded to the dtype of x."""
    # With u = x / rms(x) and g = w * dy, the gradient is (g - u * mean(g * u)) / rms(x).
    scale_N1 = _inverse_rms(x_NH.float(), eps)
    g_NH = (dy_NH * weight_H).float()
    unit_NH = x_NH * scale_N1
    g_NH = g_NH - unit_NH * (g_NH * unit_NH).mean(-1, keepdim=True)
    return (g_NH * scale_N1).to(x_NH.dtype)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Returns (x1 cos - x2 sin, x2 cos + x1 sin) for the halves (x1, x2) of each head; cos and sin are [N, 1, D]."""
    x1, x2 = x.chunk(2, -1)
    cos1, cos2 = cos.chunk(2, -1)
    sin1, sin2 = sin.chunk(2, -1)
    return torch.cat([torch.addcmul(x1 * cos1, x2, sin1, value=-1), torch.addcmul(x2 * cos2, x1, sin2)], -1)


def _by_head(qk: Tensor, kv_heads: int, norms: HeadNorms) -> Tensor:
    """Returns the norms' weights [heads, D], those of q first."""
    return torch.cat([norms.q.expand(qk.shape[1] - kv_heads, -1), norms.k.expand(kv_heads, -1)])


class Wrap(Protocol):
    """Returns a function that computes the same."""

    def __call__(self, function: _Function, /) -> _Function: ...


def _as_it_is(function: _Function, /) -> _Function:
    """Returns the function."""
    return function


class Ops:
    """The functions above, each as `wrap` returns it: compiled, or as it is."""

    def __init__(self, wrap: Wrap = _as_it_is) -> None:
        self.rms_norm = wrap(rms_norm)
        self.add_norm = wrap(add_norm)
        self.norm_backward = wrap(norm_backward)
        self.all_heads = wrap(heads)
        self.heads_backward = wrap(heads_backward)
        self.swiglu = wrap(swiglu)
        self.swiglu_backward = wrap(swiglu_backward)
        self.token_shares = wrap(token_shares)
        self.sum_rows = wrap(sum_rows)

    def norm(self, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """Returns the stream s = x + y (x without y) and w * s / rms(s)."""
        return (x_NH, self.rms_norm(x_NH, weight_H, eps)) if y_NH is None else self.add_norm(x_NH, y_NH, weight_H, eps)

    def heads(
        self, qkv_NHD: Tensor, cos: Tensor, sin: Tensor, kv_heads: int, norms: HeadNorms | None
    ) -> tuple[Tensor, ...]:
        """Returns q, k and v [N, heads, D]; q and k are normed, if there are norms, and rotated."""
        return split_heads(self.all_heads(qkv_NHD, cos, sin, kv_heads, norms), kv_heads)

    def sum_taken(self, dy: Tensor, index_M: Tensor, rows: int) -> Tensor:
        """Returns the gradient [rows, ...] of a tensor for dy, that of its rows `index`; sums are taken in fp32."""
        # torch's own gradient of an index would sum in bf16, and one row's duplicates one after the other.
        wide = torch.promote_types(dy.dtype, torch.float32)
        return self.sum_rows(dy.new_zeros(rows, *dy.shape[1:], dtype=wide), index_M, dy)


def split_heads(qkv_NHD: Tensor, kv_heads: int) -> tuple[Tensor, ...]:
    """Returns the heads of q, k and v as views."""
    return qkv_NHD.split([qkv_NHD.shape[1] - 2 * kv_heads, kv_heads, kv_heads], 1)


class Norm(torch.autograd.Function):
    """Computes the stream s = x + y (x without y) and w * s / rms(s)."""

    @staticmethod
    def forward(
        ctx: Any, ops: Ops, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        stream_NH, out_NH = ops.norm(x_NH, y_NH, weight_H, eps)
        ctx.save_for_backward(stream_NH, weight_H)
        ctx.ops = ops
        ctx.eps = eps
        ctx.alone = y_NH is None
        return stream_NH, out_NH

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        stream_NH, weight_H = ctx.saved_tensors
        # `past` is the gradient that reaches the stream from later blocks. They continue from the stream that this
        # function returns, so both gradients are added in fp32 and rounded once. If they continued from x, autograd
        # would add the two in bf16, in one more pass over memory. s = x + y passes the same gradient to both.
        past_NH, dy_NH = grads
        dx_NH = ctx.ops.norm_backward(dy_NH, past_NH, stream_NH, weight_H, ctx.eps)
        return None, dx_NH, None if ctx.alone else dx_NH, None, None


class Heads(torch.autograd.Function):
    """Applies norms (if there are any) and rotary embeddings to queries and keys."""

    @staticmethod
    def forward(
        ctx: Any, ops: Ops, qkv_NHD: Tensor, kv_heads: int, norms: HeadNorms | None, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, ...]:
        # A rotation's gradient needs no input. Only a norm's does, so a model without them saves none.
        ctx.save_for_backward(cos, sin, None if norms is None else qkv_NHD)
        ctx.ops = ops
        ctx.norms = norms
        return ops.heads(qkv_NHD, cos, sin, kv_heads, norms)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_qkv_NHD = ctx.ops.heads_backward(*grads, *ctx.saved_tensors, ctx.norms)
        return None, d_qkv_NHD, *[None] * 4


class SwiGLU(torch.autograd.Function):
    """Computes silu(gate) * up of both = (gate, up)."""

    @staticmethod
    def forward(ctx: Any, ops: Ops, both_N2F: Tensor) -> Tensor:
        ctx.save_for_backward(both_N2F)
        ctx.ops = ops
        return ops.swiglu(both_N2F)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, ctx.ops.swiglu_backward(grads[0], *ctx.saved_tensors)


class Take(torch.autograd.Function):
    """Takes rows of x, each any number of times. A row's gradients are summed in fp32 and rounded once."""

    @staticmethod
    def forward(ctx: Any, ops: Ops, x_NH: Tensor, index_M: Tensor) -> Tensor:
        ctx.save_for_backward(index_M)
        ctx.ops = ops
        ctx.rows = len(x_NH)
        return x_NH.index_select(0, index_M)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, ctx.ops.sum_taken(grads[0], ctx.saved_tensors[0], ctx.rows), None


# Weights packed once for many products by oneDNN, through the operators that torch has for compiled models.
#
# These operators are private to torch, so their presence is checked. They take bf16 on a CPU only. A product with 32
# rows takes a quarter less time, one with 2048 rows a twentieth (Zen 4). It costs the memory of one more copy of the
# weights.

# The number of rows in a product that the packing is laid out for. Decoding has about as many rows in a step.
_ROWS = 32
_OPERATORS = ("_is_mkldnn_bf16_supported", "_linear_pointwise", "_reorder_linear_weight")


def packs(device: torch.device, dtype: torch.dtype) -> bool:
    """Returns whether this machine can pack weights of this dtype on this device."""
    if device.type != "cpu" or dtype != torch.bfloat16 or not torch.backends.mkldnn.is_available():
        return False
    # torch may rename or drop a private operator in any release. Then nothing is packed, and products are plain ones.
    has_operators = all(hasattr(torch.ops.mkldnn, name) for name in _OPERATORS)
    return has_operators and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def pack(weight_OI: Tensor) -> Tensor:
    """Returns an opaque tensor for `packed_linear`. Call it only if `packs` is true for the weight."""
    return torch.ops.mkldnn._reorder_linear_weight(weight_OI, _ROWS)


def packed(weight_OI: Tensor) -> Tensor | None:
    """Returns `pack(weight_OI)`, or None if `packs` is false."""
    return pack(weight_OI) if packs(weight_OI.device, weight_OI.dtype) else None


def packed_linear(x_NI: Tensor, weight: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Returns x W^T + b [N, O] for a weight that `pack` returned."""
    return torch.ops.mkldnn._linear_pointwise(x_NI, weight, bias_O, "none", [], "")
