"""The kernels that Numba compiles, for bf16 and fp32 on one thread of a CPU. Each reads and writes its rows once.

Shape suffixes as in `redqueen.policy.kernels.dispatch`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from redqueen.policy.kernels import cpu_autograd
from redqueen.policy.kernels.cpu import attention, training
from redqueen.policy.kernels.cpu.floats import as_array
from redqueen.policy.kernels.flash import Varlen
from redqueen.policy.kernels.token_scores import TokenScores
from redqueen.policy.kernels.torch_kernels import add_products
from redqueen.policy.kernels.torch_ops import NATS_PER_BIT


class NumbaKernels(TokenScores):
    """See `redqueen.policy.kernels.dispatch.Kernels`."""

    compiled = True
    varlen: Varlen | None = None

    def rotation(self, cos: Tensor, sin: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        # The compiled kernels compute in fp32 and take the half [D/2] as it is.
        del dtype
        return cos, sin

    def norm(self, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        return cpu_autograd.Norm.apply(x_NH, y_NH, weight_H, eps)

    def heads(
        self,
        qkv_NHD: Tensor,
        kv_heads: int,
        norm_q: Tensor | None,
        norm_k: Tensor | None,
        eps: float,
        rotation: tuple[Tensor, Tensor],
    ) -> tuple[Tensor, Tensor, Tensor]:
        return cpu_autograd.Heads.apply(qkv_NHD, kv_heads, norm_q, norm_k, eps, *rotation)

    def swiglu(self, both_N2F: Tensor) -> Tensor:
        return cpu_autograd.SwiGLU.apply(both_N2F)

    def take(self, x_NH: Tensor, index_M: Tensor) -> Tensor:
        return x_NH[index_M]

    def add_products_(self, out: Tensor, left: Tensor, right: Tensor, scales: Sequence[float]) -> None:
        add_products(out, left, right, scales)

    def gather(self, x: Tensor, row_MC: Tensor, kv_heads: int) -> Tensor:
        # The kernel writes every number of `out`, also the zeros of the padding, so the memory need not be cleared.
        sequences, places = row_MC.shape
        _, heads, size = x.shape
        out = x.new_empty(kv_heads, sequences, heads // kv_heads, places, size)
        attention.gather(as_array(x), as_array(row_MC), as_array(out))
        return out

    def scatter_(self, x_KMGCD: Tensor, row_MC: Tensor, out: Tensor, *, add: bool = False) -> None:
        attention.scatter(as_array(x_KMGCD), as_array(row_MC), as_array(out), add)

    def softmax_(self, shared: Tensor, own: Tensor, scale: float) -> None:
        # Flattening contiguous scores returns views, and arrays share the tensors' memory: the kernel works in place.
        attention.softmax(as_array(shared.flatten(0, 1)), as_array(own.flatten(0, 1)), scale)

    def softmax_backward_(self, d_shared: Tensor, d_own: Tensor, shared: Tensor, own: Tensor, scale: float) -> None:
        d_shared_XP, d_own_XC = as_array(d_shared.flatten(0, 1)), as_array(d_own.flatten(0, 1))
        shared_XP, own_XC = as_array(shared.flatten(0, 1)), as_array(own.flatten(0, 1))
        attention.softmax_backward(d_shared_XP, d_own_XC, shared_XP, own_XC, scale)

    def scratch(self, logits_CV: Tensor) -> tuple[Tensor, ...]:
        # The kernel overwrites the logits one by one and needs no other memory.
        del logits_CV
        return ()

    def token_shares_(
        self,
        logits_CV: Tensor,
        target_C: Tensor,
        temperature: float,
        logp_C: Tensor,
        scratch: tuple[Tensor, ...],
    ) -> Tensor:
        del scratch
        total_C = torch.empty_like(logp_C)
        training.masses(
            as_array(logits_CV),
            as_array(target_C),
            1 / (temperature * NATS_PER_BIT),
            as_array(logp_C),
            as_array(total_C),
        )
        # The kernel counts in bits, because it computes powers of two.
        logp_C.mul_(NATS_PER_BIT)
        return total_C
