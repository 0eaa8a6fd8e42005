"""Drawing tokens from logits. Shape suffixes: R rows, V vocabulary, B blocks of the vocabulary."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Drawn:
    """Tokens [R] and their log-probabilities [R], nats: as they were drawn, and of the policy itself (temperature 1,
    the whole vocabulary).
    """

    token_R: Tensor
    sampled_R: Tensor
    policy_R: Tensor


def draw(
    logits_RV: Tensor,
    uniform_R: Tensor,
    temperature: float,
    top_p: float = 1.0,
    top_k: int = 0,
    work_RV: Tensor | None = None,
) -> Drawn:
    """Inverse-CDF sampling: the token where the cumulated probability passes `uniform_R` in [0, 1).

    Of the distribution at `temperature` only the `top_k` likeliest tokens (0: all), and of those the fewest whose
    probability reaches `top_p` (Holtzman et al. 2020), can be drawn. `work_RV` is fp32 memory to compute in.
    """
    if work_RV is None:
        work_RV = torch.empty_like(logits_RV, dtype=torch.float32)
    # in powers of two: a CPU's exp2 takes a third of its exp
    per_nat = 1 / math.log(2)
    bits_RV = work_RV.copy_(logits_RV).mul_(per_nat / temperature)
    cut = bool(top_k) or top_p < 1
    if cut:
        bits_RV = _truncate(bits_RV, top_p, top_k)
    top_R1 = bits_RV.amax(-1, keepdim=True)
    token_R, total_R = _invert(bits_RV.sub_(top_R1).exp2_(), uniform_R)
    own_R = logits_RV.gather(1, token_R[:, None])[:, 0].float()
    sampled_R = (own_R * (per_nat / temperature) - top_R1[:, 0] - total_R.log2()) / per_nat
    if temperature == 1 and not cut:
        return Drawn(token_R, sampled_R, sampled_R)
    bits_RV = work_RV.copy_(logits_RV).mul_(per_nat)
    top_R1 = bits_RV.amax(-1, keepdim=True)
    total_R = bits_RV.sub_(top_R1).exp2_().sum(-1)
    return Drawn(token_R, sampled_R, (own_R * per_nat - top_R1[:, 0] - total_R.log2()) / per_nat)


def _invert(mass_RV: Tensor, uniform_R: Tensor) -> tuple[Tensor, Tensor]:
    """The token at `uniform_R` of each row's total mass, and the totals; two levels, for a cumulated sum of the whole
    vocabulary costs more than all else here.
    """
    rows, vocabulary = mass_RV.shape
    spare = -vocabulary % _BLOCK
    if spare:
        mass_RV = torch.nn.functional.pad(mass_RV, (0, spare))
    blocks_RBV = mass_RV.view(rows, -1, _BLOCK)
    block_RB = blocks_RBV.sum(-1).cumsum_(-1)
    total_R = block_RB[:, -1]
    target_R1 = (uniform_R * total_R)[:, None]
    # rounding must not lead past the last token that has any mass
    block_R1 = torch.minimum(torch.searchsorted(block_RB, target_R1, right=True), _last(block_RB))
    before_R1 = torch.where(block_R1 > 0, block_RB.gather(1, (block_R1 - 1).clamp_(min=0)), 0)
    inside_RV = blocks_RBV[torch.arange(rows, device=mass_RV.device), block_R1[:, 0]].cumsum(-1)
    place_R1 = torch.searchsorted(inside_RV, target_R1 - before_R1, right=True)
    place_R1 = torch.minimum(place_R1, _last(inside_RV))
    return (block_R1 * _BLOCK + place_R1)[:, 0].clamp_(max=vocabulary - 1), total_R


def _last(cumulated: Tensor) -> Tensor:
    """The first index at which a cumulated sum has reached its end, [R, 1]; some index where that is not a number."""
    found = torch.searchsorted(cumulated, cumulated[:, -1:].contiguous())
    return found.clamp_(max=cumulated.shape[1] - 1)


def _truncate(bits_RV: Tensor, top_p: float, top_k: int) -> Tensor:
    """-inf for what must not be drawn; the likeliest token always stays. Logits in base 2."""
    sorted_RV, order_RV = bits_RV.sort(-1, descending=True)
    drop_RV = torch.zeros_like(sorted_RV, dtype=torch.bool)
    if top_k:
        drop_RV[:, top_k:] = True
    if top_p < 1:
        p_RV = sorted_RV.mul(math.log(2)).masked_fill_(drop_RV, float("-inf")).softmax(-1)
        drop_RV |= p_RV.cumsum(-1) - p_RV >= top_p
    drop_RV[:, 0] = False
    return bits_RV.masked_fill(torch.zeros_like(drop_RV).scatter_(1, order_RV, drop_RV), float("-inf"))
