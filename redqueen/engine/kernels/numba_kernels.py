"""The kernels that Numba compiles, for bf16 and fp32 on one thread of a CPU. Each reads and writes its rows once.

Shape suffixes as in `redqueen.engine.kernels`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from redqueen.engine.kernels import Kernels, numba_training
from redqueen.engine.kernels.numba_floats import Array, as_array
from redqueen.engine.kernels.torch_ops import NATS_PER_BIT, HeadNorms, Ops, split_heads


def norm_backward(dy_NH: Tensor, past_NH: Tensor, stream_NH: Tensor, weight_H: Tensor, eps: float) -> Tensor:
    """Returns the gradient of the stream: that of its norm, plus `past` that reaches it from later blocks."""
    dx_NH = torch.empty_like(stream_NH)
    numba_training.norm_backward(
        as_array(dy_NH.contiguous()),
        as_array(stream_NH),
        as_array(weight_H),
        eps,
        as_array(past_NH.contiguous()),
        as_array(dx_NH),
    )
    return dx_NH


def heads_backward(
    dq: Tensor, dk: Tensor, dv: Tensor, cos: Tensor, sin: Tensor, qkv_NHD: Tensor | None, norms: HeadNorms | None
) -> Tensor:
    """Returns the gradient of qkv [N, heads, D]; `qkv` is needed only if there are norms."""
    # Concatenating allocates the result and puts dv in its place; the kernels then overwrite the parts of q and k.
    d_qkv_NHD = torch.cat([dq, dk, dv], 1)
    out_q, out_k, _ = split_heads(d_qkv_NHD, dv.shape[1])
    # Without a norm the kernel does not read q and k; any tensor of their shape will do.
    q, k, _ = split_heads(d_qkv_NHD if qkv_NHD is None else qkv_NHD, dv.shape[1])
    norm_q, norm_k, eps = _as_arrays(norms)
    for dy, x, norm, dx in ((dq, q, norm_q, out_q), (dk, k, norm_k, out_k)):
        numba_training.heads_backward(
            as_array(dy.contiguous()), as_array(x), norm, eps, as_array(cos), as_array(sin), as_array(dx)
        )
    return d_qkv_NHD


def swiglu(both_N2F: Tensor) -> Tensor:
    """Returns silu(gate) * up [N, F] for gate and up side by side."""
    out_NF = both_N2F.new_empty(len(both_N2F), both_N2F.shape[1] // 2)
    numba_training.swiglu(as_array(both_N2F), as_array(out_NF))
    return out_NF


def swiglu_backward(dy_NF: Tensor, both_N2F: Tensor) -> Tensor:
    """Returns the gradient of gate and up side by side [N, 2F]."""
    d_both_N2F = torch.empty_like(both_N2F)
    numba_training.swiglu_backward(as_array(dy_NF.contiguous()), as_array(both_N2F), as_array(d_both_N2F))
    return d_both_N2F


def _as_arrays(norms: HeadNorms | None) -> tuple[Array, Array, float]:
    """Returns the weights for q and k, and eps; empty arrays tell the kernels that there are no norms."""
    if norms is None:
        return np.empty(0, np.float32), np.empty(0, np.float32), 0.0
    return as_array(norms.q), as_array(norms.k), norms.eps


class NumbaOps(Ops):
    """The operations of a forward and backward pass in compiled loops; what is not here is torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_backward = norm_backward
        self.heads_backward = heads_backward
        self.swiglu = swiglu
        self.swiglu_backward = swiglu_backward

    def norm(self, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        stream_NH = x_NH if y_NH is None else torch.empty_like(x_NH)
        # A compiled kernel takes arrays only, so a missing y is an array without rows.
        added_NH = x_NH[:0] if y_NH is None else y_NH
        out_NH = torch.empty_like(x_NH)
        numba_training.norm(
            as_array(x_NH), as_array(added_NH), as_array(weight_H), eps, as_array(stream_NH), as_array(out_NH)
        )
        return stream_NH, out_NH

    def heads(
        self, qkv_NHD: Tensor, cos: Tensor, sin: Tensor, kv_heads: int, norms: HeadNorms | None
    ) -> tuple[Tensor, ...]:
        # Views into `qkv` are not contiguous; the kernels take any strides, so no copies are made.
        q, k, v = split_heads(qkv_NHD, kv_heads)
        out_q, out_k = q.new_empty(q.shape), k.new_empty(k.shape)
        norm_q, norm_k, eps = _as_arrays(norms)
        numba_training.heads(as_array(q), norm_q, eps, as_array(cos), as_array(sin), as_array(out_q))
        numba_training.heads(as_array(k), norm_k, eps, as_array(cos), as_array(sin), as_array(out_k))
        # A view of v would keep the memory of all three alive.
        return out_q, out_k, v.clone()


class NumbaKernels(Kernels):
    """See `redqueen.engine.kernels.Kernels`."""

    compiled = True
    ops = NumbaOps()

    def rotation(self, cos: Tensor, sin: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        # The compiled kernels compute in fp32 and take the half [D/2] as it is.
        del dtype
        return cos, sin

    def take(self, x_NH: Tensor, index_M: Tensor) -> Tensor:
        return x_NH[index_M]

    def gather(self, x: Tensor, row_MC: Tensor, kv_heads: int) -> Tensor:
        # The kernel writes every number of `out`, also the zeros of the padding, so the memory need not be cleared.
        sequences, places = row_MC.shape
        _, heads, size = x.shape
        out = x.new_empty(kv_heads, sequences, heads // kv_heads, places, size)
        numba_training.gather(as_array(x), as_array(row_MC), as_array(out))
        return out

    def scatter_(self, x_KMGCD: Tensor, row_MC: Tensor, out: Tensor, *, add: bool = False) -> None:
        numba_training.scatter(as_array(x_KMGCD), as_array(row_MC), as_array(out), add)

    def softmax_(self, shared: Tensor, own: Tensor, scale: float) -> None:
        # Flattening contiguous scores returns views, and arrays share the tensors' memory: the kernel works in place.
        numba_training.softmax(as_array(shared.flatten(0, 1)), as_array(own.flatten(0, 1)), scale)

    def softmax_backward_(self, d_shared: Tensor, d_own: Tensor, shared: Tensor, own: Tensor, scale: float) -> None:
        d_shared_XP, d_own_XC = as_array(d_shared.flatten(0, 1)), as_array(d_own.flatten(0, 1))
        shared_XP, own_XC = as_array(shared.flatten(0, 1)), as_array(own.flatten(0, 1))
        numba_training.softmax_backward(d_shared_XP, d_own_XC, shared_XP, own_XC, scale)

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
        numba_training.masses(
            as_array(logits_CV),
            as_array(target_C),
            1 / (temperature * NATS_PER_BIT),
            as_array(logp_C),
            as_array(total_C),
        )
        # The kernel counts in bits, because it computes powers of two.
        logp_C.mul_(NATS_PER_BIT)
        return total_C
