"""The decoder's small operations in torch, each with a backward pass that saves and writes as little as it can.

Shape suffixes: N rows, H features, D head size, F intermediate size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def rms_norm(x_NH: Tensor, weight_H: Tensor, eps: float) -> Tensor:
    """Returns w * x / rms(x) over the last axis; the weight takes no gradient."""
    return _RMSNorm.apply(x_NH, weight_H, eps) if torch.is_grad_enabled() else _normed(x_NH, weight_H, eps)[0]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Returns the rotary embedding of x [N, heads, D] by cos and sin [N, 1, D]."""
    return _Rotate.apply(x, cos, sin) if torch.is_grad_enabled() else _rotated(x, cos, sin)


def swiglu(both_N2F: Tensor) -> Tensor:
    """Returns silu(gate) * up [N, F] for gate and up side by side in [N, 2F]."""
    return _SwiGLU.apply(both_N2F) if torch.is_grad_enabled() else _gated(both_N2F)


def _gated(both_N2F: Tensor) -> Tensor:
    """Returns silu(gate) * up."""
    gate_NF, up_NF = both_N2F.chunk(2, -1)
    return F.silu(gate_NF).mul_(up_NF)


def _normed(x_NH: Tensor, weight_H: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Returns w * x / rms(x) and 1 / rms(x) [N, 1], the latter in fp32."""
    # The copy to fp32 is explicit, because the operations below work in place and `x` may be fp32 already. As in
    # transformers, the unit vector is rounded to the input's dtype before the weight multiplies it.
    wide_NH = x_NH.to(torch.float32, copy=True)
    scale_N1 = wide_NH.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
    return wide_NH.mul_(scale_N1).to(x_NH.dtype).mul_(weight_H), scale_N1


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_NH: Tensor, weight_H: Tensor, eps: float) -> Tensor:
        # The backward pass needs x and one number per row. Autograd would keep several fp32 copies of x.
        y_NH, scale_N1 = _normed(x_NH, weight_H, eps)
        ctx.save_for_backward(x_NH, weight_H, scale_N1)
        return y_NH

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_NH, weight_H, scale_N1 = ctx.saved_tensors
        # With u = x / rms(x) and g = w * dy, the gradient is (g - u * mean(g * u)) / rms(x).
        g_NH = (grads[0] * weight_H).float()
        unit_NH = x_NH * scale_N1
        g_NH -= unit_NH * (g_NH * unit_NH).mean(-1, keepdim=True)
        return g_NH.mul_(scale_N1).to(x_NH.dtype), None, None


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotated(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # A rotation is orthogonal, so its gradient is rotated back by the negative angle. The input is not needed.
        cos, sin = ctx.saved_tensors
        return _rotated(grads[0], cos, -sin), None, None


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Returns (x1 cos - x2 sin, x2 cos + x1 sin) for the halves (x1, x2) of each head."""
    half = x.shape[-1] // 2
    turned = x * cos
    turned[..., :half].addcmul_(x[..., half:], sin[..., :half], value=-1)
    turned[..., half:].addcmul_(x[..., :half], sin[..., half:])
    return turned


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, both_N2F: Tensor) -> Tensor:
        ctx.save_for_backward(both_N2F)
        return _gated(both_N2F)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (both_N2F,) = ctx.saved_tensors
        gate_NF, up_NF = both_N2F.chunk(2, -1)
        # Both gradients are written to the halves of one tensor, so nothing has to be concatenated. silu(gate) is
        # computed a second time here, so that the forward pass does not have to save it.
        dy_NF = grads[0]
        d_both_N2F = torch.empty_like(both_N2F)
        d_gate_NF, d_up_NF = d_both_N2F.chunk(2, -1)
        torch.mul(F.silu(gate_NF), dy_NF, out=d_up_NF)
        d_gate_NF.copy_(torch.ops.aten.silu_backward(dy_NF * up_NF, gate_NF))
        return (d_both_N2F,)
