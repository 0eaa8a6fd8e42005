"""Autograd functions over the compiled kernels of training.

Shape suffixes: N rows, H features, D head size, F intermediate size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from redqueen.policy.kernels.cpu import training
from redqueen.policy.kernels.cpu.floats import Array, as_array


class Norm(torch.autograd.Function):
    """Computes the stream s = x + y (x without y) and w * s / rms(s)."""

    @staticmethod
    def forward(ctx: Any, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        stream_NH = x_NH if y_NH is None else torch.empty_like(x_NH)
        # A compiled kernel takes arrays only, so a missing y is an array without rows.
        added_NH = x_NH[:0] if y_NH is None else y_NH
        out_NH = torch.empty_like(x_NH)
        training.norm(
            as_array(x_NH), as_array(added_NH), as_array(weight_H), eps, as_array(stream_NH), as_array(out_NH)
        )
        ctx.save_for_backward(stream_NH, weight_H)
        ctx.eps = eps
        ctx.alone = y_NH is None
        return stream_NH, out_NH

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        stream_NH, weight_H = ctx.saved_tensors
        # `past` is the gradient that reaches the stream from later blocks. They continue from the stream that this
        # function returns, so the kernel can add both gradients in fp32 and round once. If they continued from x,
        # autograd would add the two in bf16, in one more pass over memory.
        past_NH, dy_NH = (grad.contiguous() for grad in grads)
        dx_NH = torch.empty_like(stream_NH)
        training.norm_backward(
            as_array(dy_NH), as_array(stream_NH), as_array(weight_H), ctx.eps, as_array(past_NH), as_array(dx_NH)
        )
        # s = x + y passes the same gradient to both.
        return dx_NH, None if ctx.alone else dx_NH, None, None


class Heads(torch.autograd.Function):
    """Applies norms (if there are weights) and rotary embeddings to queries and keys; copies the values."""

    @staticmethod
    def forward(
        ctx: Any,
        qkv_NHD: Tensor,
        kv_heads: int,
        norm_q: Tensor | None,
        norm_k: Tensor | None,
        eps: float,
        cos: Tensor,
        sin: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        # Views into `qkv` are not contiguous; the kernels take any strides, so no copies are made.
        q, k, v = _split(qkv_NHD, kv_heads)
        out_q, out_k = q.new_empty(q.shape), k.new_empty(k.shape)
        training.heads(as_array(q), _weight(norm_q), eps, as_array(cos), as_array(sin), as_array(out_q))
        training.heads(as_array(k), _weight(norm_k), eps, as_array(cos), as_array(sin), as_array(out_k))
        # A rotation's gradient needs no input. Only a norm's does, so a model without them saves none.
        ctx.save_for_backward(cos, sin, norm_q, norm_k, None if norm_q is None and norm_k is None else qkv_NHD)
        ctx.eps = eps
        # A view of v would keep the memory of all three alive.
        return out_q, out_k, v.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin, norm_q, norm_k, saved_NHD = ctx.saved_tensors
        dq, dk, dv = grads
        # Concatenating allocates the result and puts dv in its place; the kernels then overwrite the parts of q and k.
        d_qkv_NHD = torch.cat(grads, 1)
        out_q, out_k, _ = _split(d_qkv_NHD, dv.shape[1])
        # Without a norm the kernel does not read q and k; any tensor of their shape will do.
        q, k, _ = _split(d_qkv_NHD if saved_NHD is None else saved_NHD, dv.shape[1])
        for dy, x, norm, dx in ((dq, q, norm_q, out_q), (dk, k, norm_k, out_k)):
            training.heads_backward(
                as_array(dy.contiguous()),
                as_array(x),
                _weight(norm),
                ctx.eps,
                as_array(cos),
                as_array(sin),
                as_array(dx),
            )
        return d_qkv_NHD, *[None] * 6


def _split(qkv_NHD: Tensor, kv_heads: int) -> tuple[Tensor, ...]:
    """Returns the heads of q, k and v as views."""
    return qkv_NHD.split([qkv_NHD.shape[1] - 2 * kv_heads, kv_heads, kv_heads], 1)


def _weight(norm: Tensor | None) -> Array:
    """Returns a norm's weight; an empty array tells the kernel that there is no norm."""
    return np.empty(0, np.float32) if norm is None else as_array(norm)


class SwiGLU(torch.autograd.Function):
    """Computes silu(gate) * up of both = (gate, up)."""

    @staticmethod
    def forward(ctx: Any, both_N2F: Tensor) -> Tensor:
        out_NF = both_N2F.new_empty(len(both_N2F), both_N2F.shape[1] // 2)
        training.swiglu(as_array(both_N2F), as_array(out_NF))
        ctx.save_for_backward(both_N2F)
        return out_NF

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (both_N2F,) = ctx.saved_tensors
        d_both_N2F = torch.empty_like(both_N2F)
        training.swiglu_backward(as_array(grads[0].contiguous()), as_array(both_N2F), as_array(d_both_N2F))
        return (d_both_N2F,)
