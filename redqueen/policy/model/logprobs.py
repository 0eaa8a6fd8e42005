"""Log-probabilities of tokens, computed in chunks so that no tensor of [tokens, vocabulary] exists.

Shape suffixes: N scored tokens, C tokens of a chunk, H hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from redqueen.policy.kernels.dispatch import kernels_of

CHUNK = 128
"""The number of tokens whose logits are held at a time."""


class TokenLogprobs(torch.autograd.Function):
    """Computes log p(target | hidden) under a frozen output matrix.

    The forward pass keeps d logp / d hidden. That costs [N, H] and saves the second product with the vocabulary matrix
    that recomputing would need.
    """

    @staticmethod
    def forward(ctx: Any, hidden_NH: Tensor, weight_VH: Tensor, target_N: Tensor, temperature: float) -> Tensor:
        kernels = kernels_of(weight_VH)
        logp_N = hidden_NH.new_empty(len(target_N), dtype=torch.float32)
        slope_NH = torch.empty_like(hidden_NH)
        # All chunks reuse one tensor of logits and the kernels' scratch memory.
        work_CV = weight_VH.new_empty(min(CHUNK, len(target_N)), len(weight_VH))
        scratch = kernels.scratch(work_CV)
        for start in range(0, len(target_N), CHUNK):
            chunk = slice(start, start + CHUNK)
            # Indexing raises on an invalid token id; the compiled kernel does no bounds check.
            chosen_CH = weight_VH[target_N[chunk]]
            logits_CV = torch.mm(hidden_NH[chunk], weight_VH.T, out=work_CV[: len(chosen_CH)])
            total_C = kernels.token_shares_(logits_CV, target_N[chunk], temperature, logp_N[chunk], scratch)
            # d logp / d hidden = (W[target] - sum over v of p(v) W[v]) / T. The kernel has left p(v) times the row's
            # total in `logits`, so the sum is one product.
            expected_CH = (logits_CV @ weight_VH) / total_C[:, None]
            slope_NH[chunk] = (chosen_CH - expected_CH) / temperature
        ctx.save_for_backward(slope_NH)
        return logp_N

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (slope_NH,) = ctx.saved_tensors
        return (grads[0][:, None] * slope_NH).to(slope_NH.dtype), None, None, None
