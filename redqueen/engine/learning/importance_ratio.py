"""The importance ratio: how much likelier a sampled token is to the learner than it was to the sampler.

Both have the same weights, but they round differently, so the tokens are not drawn from quite the distribution that is
trained. Weighting each token by the ratio removes that bias; truncating the ratio bounds the variance that it adds
(Ionides 2008, Truncated Importance Sampling; for language models Yao et al. 2025, "Your Efficient RL Framework Secretly
Brings You Off-Policy RL Training"). verl's `rollout_is=token` and TRL's `vllm_importance_sampling_correction` are the
same, with the same cap of 2.

Shape suffix: S scored tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from redqueen.errors import MismatchError
from redqueen.records import ImportanceRatio


@dataclass(frozen=True, slots=True)
class TokenRatios:
    """The ratios of a micro-batch's tokens. Nothing here has a gradient: the ratio is a constant of the loss."""

    ratio_S: Tensor
    """The truncated ratio; 1 for a token that no member sampled."""
    sums_5S: Tensor
    """What `RatioStats` adds up, a row for each of its fields, in float64."""


def importance_ratios(learner_S: Tensor, sampler_S: Tensor, cap: float) -> TokenRatios:
    """Returns the ratios exp(learner - sampler) of log-probabilities, truncated at `cap`.

    The sampler's log-probability is NaN where no member sampled the token.
    """
    sampled_S = ~sampler_S.isnan()
    log_ratio_S = torch.where(sampled_S, learner_S.detach() - sampler_S, 0.0)
    full_S = log_ratio_S.exp()
    ratio_S = full_S.clamp(max=cap)
    # The spread may be a millionth. Sums of differences from 1 keep its digits, sums of squared ratios would not.
    excess_S = (ratio_S - 1).double()
    clipped_S = full_S > cap
    sums_5S = torch.stack(
        [sampled_S.double(), log_ratio_S.abs().double(), excess_S, excess_S.square(), clipped_S.double()]
    )
    return TokenRatios(ratio_S, sums_5S)


@dataclass(slots=True)
class RatioStats:
    """Sums over one member's trained tokens that were sampled."""

    tokens: float = 0.0
    gap: float = 0.0
    """The absolute log-ratios, in nats: how far sampler and learner are apart."""
    excess: float = 0.0
    """The truncated ratios minus 1."""
    square: float = 0.0
    """The squares of the truncated ratios minus 1."""
    clipped: float = 0.0
    """How many ratios were truncated."""

    def add(self, other: RatioStats) -> None:
        self.tokens += other.tokens
        self.gap += other.gap
        self.excess += other.excess
        self.square += other.square
        self.clipped += other.clipped

    @property
    def mean_gap(self) -> float:
        """The mean absolute log-ratio, in nats per token; 0 without a token."""
        return self.gap / max(self.tokens, 1)

    def summary(self) -> ImportanceRatio | None:
        """Returns the mean, the spread and the truncated share of the ratios; None without a token."""
        if not self.tokens:
            return None
        excess = self.excess / self.tokens
        variance = max(self.square / self.tokens - excess**2, 0.0)
        return ImportanceRatio(mean=1 + excess, std=variance**0.5, clipped=self.clipped / self.tokens)


def refuse_mismatch(stats: Mapping[str, RatioStats], limit: float) -> None:
    """Raises MismatchError if a member's mean gap is above `limit`: its texts were written with other weights."""
    for member, ratios in stats.items():
        if ratios.mean_gap > limit:
            raise MismatchError(
                f"{member}: sampler and learner differ by {ratios.mean_gap:.2f} nats a token, where rounding gives "
                "under 0.05: the sampler had other weights (a stale or missing adapter?). Nothing was updated: resume "
                f"from the last checkpoint, or raise learning.max_logprob_gap={limit:g} if this is meant"
            )
