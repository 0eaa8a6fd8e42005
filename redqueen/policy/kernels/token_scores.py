"""Scores of a chunk of tokens on a CPU: log-probabilities and their gradients, from logits in the base's dtype.

Shape suffixes as in `redqueen.policy.kernels.dispatch`.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class _Shares(Protocol):
    """What a kernel adds to `TokenScores`."""

    def scratch(self, logits_CV: Tensor) -> tuple[Tensor, ...]:
        """Returns memory for `token_shares_`, which all chunks use."""
        ...

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
        ...


class TokenScores:
    """The part of `redqueen.policy.kernels.dispatch.Kernels` that scores tokens."""

    logit_rows = 128

    def score_memory(self: _Shares, weight_VH: Tensor, rows: int) -> tuple[Tensor, ...]:
        # All chunks reuse one tensor of logits and the kernels' scratch memory.
        logits_CV = weight_VH.new_empty(rows, len(weight_VH))
        return logits_CV, *self.scratch(logits_CV)

    def score_(
        self: _Shares,
        hidden_CH: Tensor,
        weight_VH: Tensor,
        target_C: Tensor,
        temperature: float,
        logp_C: Tensor,
        slope_CH: Tensor,
        memory: tuple[Tensor, ...],
    ) -> None:
        # Indexing raises on an invalid token id; the compiled kernel does no bounds check.
        chosen_CH = weight_VH[target_C]
        work_CV, *scratch = memory
        logits_CV = torch.mm(hidden_CH, weight_VH.T, out=work_CV[: len(chosen_CH)])
        total_C = self.token_shares_(logits_CV, target_C, temperature, logp_C, tuple(scratch))
        # d logp / d hidden = (W[target] - sum over v of p(v) W[v]) / T. The kernel has left p(v) times the row's total
        # in `logits`, so the sum is one product.
        expected_CH = (logits_CV @ weight_VH) / total_C[:, None]
        slope_CH.copy_((chosen_CH - expected_CH) / temperature)
