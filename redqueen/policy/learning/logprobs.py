"""Log-probabilities without ever holding [tokens, vocabulary], and the weights of the policy-gradient loss.

Shape suffixes: N scored tokens, C tokens of a chunk, H hidden size, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from redqueen.policy.kernels.cpu.floats import loops_suit, raw
from redqueen.policy.kernels.cpu.training import masses
from redqueen.records import Sample

CHUNK = 128


class TokenLogprobs(torch.autograd.Function):
    """log p(target | hidden) under a frozen output matrix; d logp / d hidden is kept from the forward pass.

    Keeping it costs [N, H] and saves the second product with the vocabulary matrix that recomputing would need.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden_NH: Tensor, weight_VH: Tensor, target_N: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        logp_N = hidden_NH.new_empty(len(target_N), dtype=torch.float32)
        entropy_N = torch.empty_like(logp_N)
        slope_NH = torch.empty_like(hidden_NH)
        work = _Work(min(CHUNK, len(target_N)), weight_VH)
        for start in range(0, len(target_N), CHUNK):
            chunk = slice(start, start + CHUNK)
            chosen_CH = weight_VH[target_N[chunk]]  # refuses what is no token, at which loops would not look twice
            logits_CV = torch.mm(hidden_NH[chunk], weight_VH.T, out=work.logits[: len(chosen_CH)])
            total_C = work.shares(logits_CV, target_N[chunk], temperature, logp_N[chunk], entropy_N[chunk])
            expected_CH = (logits_CV @ weight_VH) / total_C[:, None]
            slope_NH[chunk] = (chosen_CH - expected_CH) / temperature
        ctx.save_for_backward(slope_NH)
        ctx.mark_non_differentiable(entropy_N)
        return logp_N, entropy_N

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (slope_NH,) = ctx.saved_tensors
        return (grads[0][:, None] * slope_NH).to(slope_NH.dtype), None, None, None


# in powers of two: a CPU's exp2 takes a third of its exp
_PER_BIT = math.log(2)


class _Work:
    """Memory for one chunk's logits, and for torch's operations twice more in fp32: fresh memory for each chunk would
    cost a tenth of the time.
    """

    def __init__(self, rows: int, weight_VH: Tensor) -> None:
        self.logits = weight_VH.new_empty(rows, len(weight_VH))
        wide = 0 if loops_suit(weight_VH) else rows
        self.bits, self.mass = (self.logits.new_empty(wide, len(weight_VH), dtype=torch.float32) for _ in range(2))

    def shares(
        self, logits_CV: Tensor, target_C: Tensor, temperature: float, logp_C: Tensor, entropy_C: Tensor
    ) -> Tensor:
        """Writes log-probabilities and entropies; leaves in `logits` each token's probability times the row's [C] that
        is returned.
        """
        if loops_suit(logits_CV):
            total_C = torch.empty_like(logp_C)
            factor = 1 / (temperature * _PER_BIT)
            masses(raw(logits_CV), raw(target_C), factor, raw(logp_C), raw(entropy_C), raw(total_C))
            logp_C.mul_(_PER_BIT)
            entropy_C.mul_(_PER_BIT)
            return total_C
        bits_CV, mass_CV = self.bits[: len(logits_CV)], self.mass[: len(logits_CV)]
        bits_CV.copy_(logits_CV).mul_(1 / (temperature * _PER_BIT))
        top_C1 = bits_CV.amax(-1, keepdim=True)
        chosen_C = bits_CV.gather(1, target_C[:, None])[:, 0] - top_C1[:, 0]
        torch.exp2(bits_CV.sub_(top_C1), out=mass_CV)
        total_C = mass_CV.sum(-1)
        logp_C.copy_((chosen_C - total_C.log2()) * _PER_BIT)
        entropy_C.copy_((total_C.log2() - bits_CV.mul_(mass_CV).sum(-1) / total_C) * _PER_BIT)
        logits_CV.copy_(mass_CV)
        return total_C


def token_weights(samples: Sequence[Sample], loss: Literal["token_mean", "sequence_mean"]) -> list[float]:
    """For each sample the weight of each of its tokens, normalised over its own member's samples only.

    token_mean: 1 / (the member's completion tokens). sequence_mean: 1 / (its samples x this one's tokens).
    A member's update therefore does not depend on who else is in the batch.
    """
    tokens: dict[str, int] = {}
    count: dict[str, int] = {}
    for sample in samples:
        tokens[sample.member] = tokens.get(sample.member, 0) + len(sample.token_ids)
        count[sample.member] = count.get(sample.member, 0) + 1
    if loss == "token_mean":
        return [1 / tokens[sample.member] for sample in samples]
    return [1 / (count[sample.member] * len(sample.token_ids)) for sample in samples]
