"""The decoder's small operations on a CPU, by compiled loops that read and write each row once.

Shape suffixes: N rows, H features, D head size, F intermediate size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from redqueen.policy.kernels.cpu import training
from redqueen.policy.kernels.cpu.floats import Array, raw


class Norm(torch.autograd.Function):
    """The stream s = x + y, or x without y, and w * s / rms(s)."""

    @staticmethod
    def forward(ctx: Any, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        stream_NH, more_NH = (x_NH, x_NH[:0]) if y_NH is None else (torch.empty_like(x_NH), y_NH)
        out_NH = torch.empty_like(x_NH)
        training.norm(raw(x_NH), raw(more_NH), raw(weight_H), eps, raw(stream_NH), raw(out_NH))
        ctx.save_for_backward(stream_NH, weight_H)
        ctx.eps, ctx.alone = eps, y_NH is None
        return stream_NH, out_NH

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (stream_NH, weight_H), (past_NH, dy_NH) = ctx.saved_tensors, (grad.contiguous() for grad in grads)
        dx_NH = torch.empty_like(stream_NH)
        training.norm_backward(raw(dy_NH), raw(stream_NH), raw(weight_H), ctx.eps, raw(past_NH), raw(dx_NH))
        return dx_NH, None if ctx.alone else dx_NH, None, None


class Heads(torch.autograd.Function):
    """Queries and keys with their norms, if they have some, and their rotary embedding; values as they are."""

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
        q, k, v = _split(qkv_NHD, kv_heads)
        made_q, made_k = q.new_empty(q.shape), k.new_empty(k.shape)
        training.heads(raw(q), _weight(norm_q), eps, raw(cos), raw(sin), raw(made_q))
        training.heads(raw(k), _weight(norm_k), eps, raw(cos), raw(sin), raw(made_k))
        ctx.save_for_backward(cos, sin, norm_q, norm_k, None if norm_q is None and norm_k is None else qkv_NHD)
        ctx.eps = eps
        return made_q, made_k, v.clone()  # a view would keep all three

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin, norm_q, norm_k, kept = ctx.saved_tensors
        dq, dk, dv = grads
        d_qkv_NHD = torch.cat(grads, 1)
        to_q, to_k, _ = _split(d_qkv_NHD, dv.shape[1])
        q, k, _ = _split(d_qkv_NHD if kept is None else kept, dv.shape[1])  # without a norm they are not read
        for dy, x, norm, dx in ((dq, q, norm_q, to_q), (dk, k, norm_k, to_k)):
            training.heads_backward(raw(dy.contiguous()), raw(x), _weight(norm), ctx.eps, raw(cos), raw(sin), raw(dx))
        return d_qkv_NHD, *[None] * 6


def _split(qkv_NHD: Tensor, kv_heads: int) -> tuple[Tensor, ...]:
    return qkv_NHD.split([qkv_NHD.shape[1] - 2 * kv_heads, kv_heads, kv_heads], 1)


def _weight(norm: Tensor | None) -> Array:
    return np.empty(0, np.float32) if norm is None else raw(norm)


class SwiGLU(torch.autograd.Function):
    """silu(gate) * up of both = (gate, up)."""

    @staticmethod
    def forward(ctx: Any, both_N2F: Tensor) -> Tensor:
        out_NF = both_N2F.new_empty(len(both_N2F), both_N2F.shape[1] // 2)
        training.swiglu(raw(both_N2F), raw(out_NF))
        ctx.save_for_backward(both_N2F)
        return out_NF

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (both_N2F,) = ctx.saved_tensors
        d_both_N2F = torch.empty_like(both_N2F)
        training.swiglu_backward(raw(grads[0].contiguous()), raw(both_N2F), raw(d_both_N2F))
        return (d_both_N2F,)
