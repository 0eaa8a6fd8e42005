"""Autograd functions over torch's operations, for any device. They save and write as little as they can.

Shape suffixes: N rows, H features, D head size, F intermediate size, M taken rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from redqueen.policy.kernels.torch_ops import Ops


class Norm(torch.autograd.Function):
    """Computes the stream s = x + y (x without y) and w * s / rms(s)."""

    @staticmethod
    def forward(
        ctx: Any, ops: Ops, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        if y_NH is None:
            stream_NH = x_NH
            out_NH = ops.rms_norm(x_NH, weight_H, eps)
        else:
            stream_NH, out_NH = ops.add_norm(x_NH, y_NH, weight_H, eps)
        ctx.save_for_backward(stream_NH, weight_H)
        ctx.ops = ops
        ctx.eps = eps
        ctx.alone = y_NH is None
        return stream_NH, out_NH

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        stream_NH, weight_H = ctx.saved_tensors
        # `past` is the gradient that reaches the stream from later blocks, which continue from the returned stream. So
        # both gradients are summed in fp32 and rounded once. s = x + y passes the same gradient to both.
        past_NH, dy_NH = grads
        dx_NH = ctx.ops.norm_backward(dy_NH, past_NH, stream_NH, weight_H, ctx.eps)
        return None, dx_NH, None if ctx.alone else dx_NH, None, None


class Heads(torch.autograd.Function):
    """Applies norms (if there are weights) and rotary embeddings to queries and keys. The results are views."""

    @staticmethod
    def forward(
        ctx: Any,
        ops: Ops,
        qkv_NHD: Tensor,
        kv_heads: int,
        norm_q: Tensor | None,
        norm_k: Tensor | None,
        eps: float,
        cos: Tensor,
        sin: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        out_NHD = ops.heads(qkv_NHD, cos, sin, kv_heads, norm_q, norm_k, eps)
        # A rotation's gradient needs no input. Only a norm's does, so a model without them saves none.
        ctx.save_for_backward(cos, sin, norm_q, norm_k, None if norm_q is None and norm_k is None else qkv_NHD)
        ctx.ops = ops
        ctx.eps = eps
        q, k, v = out_NHD.split([qkv_NHD.shape[1] - 2 * kv_heads, kv_heads, kv_heads], 1)
        return q, k, v

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin, norm_q, norm_k, qkv_NHD = ctx.saved_tensors
        d_qkv_NHD = ctx.ops.heads_backward(*grads, cos, sin, qkv_NHD, norm_q, norm_k, ctx.eps)
        return None, d_qkv_NHD, *[None] * 6


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
        return None, sum_taken(ctx.ops, grads[0], ctx.saved_tensors[0], ctx.rows), None


def sum_taken(ops: Ops, dy: Tensor, index_M: Tensor, rows: int) -> Tensor:
    """Returns the gradient [rows, ...] of a tensor for dy, that of its rows `index`; sums are taken in fp32."""
    # torch's own gradient of an index would sum in bf16, and one row's duplicates one after the other.
    wide = torch.promote_types(dy.dtype, torch.float32)
    return ops.sum_rows(dy.new_zeros(rows, *dy.shape[1:], dtype=wide), index_M, dy)
