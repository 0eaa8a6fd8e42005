"""Log-probabilities of tokens, computed in chunks so that no tensor of [tokens, vocabulary] exists.

Shape suffixes: N scored tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from redqueen.engine.kernels.dispatch import kernels_of


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
        rows = min(kernels.logit_rows, len(target_N))
        memory = kernels.score_memory(weight_VH, rows)
        for start in range(0, len(target_N), kernels.logit_rows):
            chunk = slice(start, start + kernels.logit_rows)
            kernels.score_(
                hidden_NH[chunk], weight_VH, target_N[chunk], temperature, logp_N[chunk], slope_NH[chunk], memory
            )
        ctx.save_for_backward(slope_NH)
        return logp_N

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (slope_NH,) = ctx.saved_tensors
        return (grads[0][:, None] * slope_NH).to(slope_NH.dtype), None, None, None
