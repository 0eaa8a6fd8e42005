"""What a layer computes between its products, for one batch: by compiled loops, or by torch's operations.

Norms are computed in fp32, products in the base's dtype, as in transformers' Llama, Mistral, Qwen2 and Qwen3.
Shape suffixes: N rows, H hidden size, D head size, F intermediate size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from redqueen.policy.kernels import cpu_autograd as ops_loops
from redqueen.policy.kernels import torch_ops as ops_torch
from redqueen.policy.kernels.cpu.floats import loops_suit


@dataclass(frozen=True, slots=True)
class Angles:
    """Rotary embeddings (Su et al. 2021) of a batch's positions: cos and sin [N, D/2] in fp32."""

    cos: Tensor
    sin: Tensor


class Ops(Protocol):
    """Differentiable in whatever is not a weight."""

    def norm(self, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor) -> tuple[Tensor, Tensor]:
        """The residual stream s = x + y, or x where nothing is added, and w * s / rms(s) (Zhang and Sennrich 2019).

        Go on with this stream, not with `x`: its gradient and the norm's are then added before they are rounded.
        """
        ...

    def heads(
        self, qkv_NHD: Tensor, kv_heads: int, norm_q: Tensor | None, norm_k: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v [N, heads, D] from their heads side by side; q and k after their norms, if any, and rotated in
        Llama's halves: (x1, x2) becomes (x1 cos - x2 sin, x2 cos + x1 sin).
        """
        ...

    def swiglu(self, both_N2F: Tensor) -> Tensor:
        """silu(gate) * up for gate and up side by side in [N, 2F] (Shazeer 2020)."""
        ...


def ops_of(x_NH: Tensor, angles: Angles, eps: float) -> Ops:
    """The way that the device and the dtype of `x` want."""
    return LoopOps(angles, eps) if loops_suit(x_NH) else TorchOps(angles, eps, x_NH.dtype)


class LoopOps:
    """By compiled loops, on one thread; a CPU's bf16 and fp32."""

    def __init__(self, angles: Angles, eps: float) -> None:
        self.angles, self.eps, self.none = angles, eps, torch.empty(0)

    def norm(self, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor) -> tuple[Tensor, Tensor]:
        return ops_loops.Norm.apply(x_NH, y_NH, weight_H, self.eps)

    def heads(
        self, qkv_NHD: Tensor, kv_heads: int, norm_q: Tensor | None, norm_k: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        return ops_loops.Heads.apply(qkv_NHD, kv_heads, norm_q, norm_k, self.eps, self.angles.cos, self.angles.sin)

    def swiglu(self, both_N2F: Tensor) -> Tensor:
        return ops_loops.SwiGLU.apply(both_N2F)


class TorchOps:
    """By torch's operations, on any device; cos and sin are rounded to `dtype` as transformers rounds them."""

    def __init__(self, angles: Angles, eps: float, dtype: torch.dtype) -> None:
        self.cos, self.sin = (half.repeat(1, 2).to(dtype)[:, None] for half in (angles.cos, angles.sin))
        self.eps = eps

    def norm(self, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor) -> tuple[Tensor, Tensor]:
        stream_NH = x_NH if y_NH is None else x_NH + y_NH
        return stream_NH, ops_torch.rms_norm(stream_NH, weight_H, self.eps)

    def heads(
        self, qkv_NHD: Tensor, kv_heads: int, norm_q: Tensor | None, norm_k: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = qkv_NHD.split([qkv_NHD.shape[1] - 2 * kv_heads, kv_heads, kv_heads], 1)
        q = q if norm_q is None else ops_torch.rms_norm(q, norm_q, self.eps)
        k = k if norm_k is None else ops_torch.rms_norm(k, norm_k, self.eps)
        return ops_torch.rotate(q, self.cos, self.sin), ops_torch.rotate(k, self.cos, self.sin), v

    def swiglu(self, both_N2F: Tensor) -> Tensor:
        return ops_torch.swiglu(both_N2F)
