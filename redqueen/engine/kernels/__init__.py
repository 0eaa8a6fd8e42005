"""The kernels: what the decoder computes between its products, and what all implementations share.

Norms are computed in fp32, products in the base's dtype, as in transformers' Llama, Mistral, Qwen2 and Qwen3.
Shape suffixes: N rows, H hidden size, D head size, F intermediate size, K kv heads, M sequences, G query heads of each
kv head, C places of a sequence (or rows of a chunk, with V), P tokens of a prompt, X = K x M x G x C, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from redqueen.engine.kernels.flash import Varlen
from redqueen.engine.kernels.torch_ops import HeadNorms, Heads, Norm, Ops, SwiGLU

Rotation = tuple[Tensor, Tensor]
"""Rotary embeddings of a batch's positions, cos and sin, as a kernel's `heads` reads them."""


class Kernels(ABC):
    """One implementation. A method without an underscore at its end is differentiable in all inputs but the weights.

    The gradients over `ops` and the scores of a chunk of tokens are the same in all of them, but for `GpuKernels`'.
    """

    compiled: bool = False
    """Whether these are Numba's kernels, which have a decoding step of their own."""
    varlen: Varlen | None = None
    """Attention over sequences of any lengths in one call; None where products over padded ones are taken."""
    logit_rows = 128
    """The number of tokens that `score_` should get at a time: their logits are held at once."""
    ops = Ops()
    """What the gradients are made of."""

    @abstractmethod
    def rotation(self, cos: Tensor, sin: Tensor, dtype: torch.dtype) -> Rotation:
        """Prepares cos and sin [N, D/2] (fp32) for `heads` of `dtype`, once for all layers."""

    def norm(self, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """Returns the residual stream s = x + y (x without y) and w * s / rms(s) (Zhang and Sennrich 2019).

        Continue from the returned stream, not from `x`: the two gradients are then summed in fp32 before rounding.
        """
        return Norm.apply(self.ops, x_NH, y_NH, weight_H, eps)

    def heads(
        self, qkv_NHD: Tensor, kv_heads: int, norms: HeadNorms | None, rotation: Rotation
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns q, k and v [N, heads, D] of `qkv`, which holds their heads one after the other.

        q and k are normed, if there are norms, and rotated (Su et al. 2021) in Llama's halves: (x1, x2) becomes
        (x1 cos - x2 sin, x2 cos + x1 sin).
        """
        return Heads.apply(self.ops, qkv_NHD, kv_heads, norms, *rotation)

    def swiglu(self, both_N2F: Tensor) -> Tensor:
        """Returns silu(gate) * up [N, F] for gate and up side by side in [N, 2F] (Shazeer 2020)."""
        return SwiGLU.apply(self.ops, both_N2F)

    @abstractmethod
    def gather(self, x: Tensor, row_MC: Tensor, kv_heads: int) -> Tensor:
        """Returns the rows `row_MC` of x [N, heads, D] as [K, M, G, C, D], with zeros where the row is -1."""

    @abstractmethod
    def scatter_(self, x_KMGCD: Tensor, row_MC: Tensor, out: Tensor, *, add: bool = False) -> None:
        """Inverts `gather`: writes to the rows `row_MC` of `out` [N, heads, D], or adds to them."""

    @abstractmethod
    def softmax_(self, shared: Tensor, own: Tensor, scale: float) -> None:
        """Turns scores into attention weights, in place: the softmax of scale x scores, masked causally.

        A row's scores are those over the prompt [K, M x G x C, P] and those over its own sequence [K x M, G x C, C].
        """

    @abstractmethod
    def softmax_backward_(self, d_shared: Tensor, d_own: Tensor, shared: Tensor, own: Tensor, scale: float) -> None:
        """Turns the gradients of the weights into those of the scores, in place."""

    @abstractmethod
    def take(self, x_NH: Tensor, index_M: Tensor) -> Tensor:
        """Returns the rows `index_M` of x. A row may be taken more than once; its gradients are then summed."""

    def add_products_(self, out: Tensor, left: Tensor, right: Tensor, scales: Sequence[float]) -> None:
        """Adds scale x left @ right to `out`, for each of the matrices that are stacked in all three. Not rounded to
        the dtype of the factors before it is added, if `out` is wider and the device can do so.
        """
        products = torch.mm(left[0], right[0])[None] if len(left) == 1 else torch.bmm(left, right)
        for total, product, scale in zip(out, products, scales, strict=True):
            total.add_(product, alpha=scale)

    def score_memory(self, weight_VH: Tensor, rows: int) -> tuple[Tensor, ...]:
        """Returns memory that `score_` reuses for every chunk. New memory each time would cost 10 % more."""
        # All chunks reuse one tensor of logits and the kernels' scratch memory.
        logits_CV = weight_VH.new_empty(rows, len(weight_VH))
        return logits_CV, *self.scratch(logits_CV)

    def score_(
        self,
        hidden_CH: Tensor,
        weight_VH: Tensor,
        target_C: Tensor,
        temperature: float,
        logp_C: Tensor,
        slope_CH: Tensor,
        memory: tuple[Tensor, ...],
    ) -> None:
        """Writes log p(target | hidden) under the output matrix, in fp32, and its gradient for `hidden`."""
        # Indexing raises on an invalid token id; the compiled kernel does no bounds check.
        chosen_CH = weight_VH[target_C]
        work_CV, *scratch = memory
        logits_CV = torch.mm(hidden_CH, weight_VH.T, out=work_CV[: len(chosen_CH)])
        total_C = self.token_shares_(logits_CV, target_C, temperature, logp_C, tuple(scratch))
        # d logp / d hidden = (W[target] - sum over v of p(v) W[v]) / T. The kernel has left p(v) times the row's total
        # in `logits`, so the sum is one product.
        expected_CH = (logits_CV @ weight_VH) / total_C[:, None]
        slope_CH.copy_((chosen_CH - expected_CH) / temperature)

    @abstractmethod
    def scratch(self, logits_CV: Tensor) -> tuple[Tensor, ...]:
        """Returns memory for `token_shares_`, which all chunks use."""

    @abstractmethod
    def token_shares_(
        self,
        logits_CV: Tensor,
        target_C: Tensor,
        temperature: float,
        logp_C: Tensor,
        scratch: tuple[Tensor, ...],
    ) -> Tensor:
        """Writes the targets' log-probabilities; returns a row's total [C].

        Leaves in `logits` each token's probability times its row's total. Does no bounds checks on `target`.
        """
