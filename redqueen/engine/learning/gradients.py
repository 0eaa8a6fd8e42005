"""The joint forward and backward pass, which adds to the gradients of all members that have samples.

Shape suffixes: N rows (tokens that go through the model), S scored tokens, H hidden size, G groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.learning.packing import PromptGroup, build_micro_batch, padded_parts
from redqueen.engine.lora.adapter_bank import AdapterBank, Gradients
from redqueen.engine.model.attention import SharedPrefix
from redqueen.engine.model.forward import Forward
from redqueen.errors import MismatchError, PromptError
from redqueen.records import ImportanceRatio

# The importance ratio: how much likelier a sampled token is to the learner than it was to the sampler.
#
# Both have the same weights (or the sampler's are one version older: `learning.max_staleness`), but they round
# differently, so the tokens are not drawn from quite the distribution that is trained. Weighting each token by the
# ratio removes that bias; truncating the ratio bounds the variance that it adds (Ionides 2008, Truncated Importance
# Sampling; for language models Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL
# Training"). verl's `rollout_is=token` and TRL's `vllm_importance_sampling_correction` are the same, with the same cap
# of 2.


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


@dataclass(slots=True)
class TokenStats:
    """Sums over one member's trained tokens."""

    loss: float = 0.0
    """The weighted negative log-probabilities, in nats."""
    tokens: int = 0
    ratio: RatioStats = field(default_factory=RatioStats)
    """The sums over those tokens that were sampled."""

    def add(self, other: TokenStats) -> None:
        self.loss += other.loss
        self.tokens += other.tokens
        self.ratio.add(other.ratio)


@dataclass(frozen=True, slots=True)
class BatchSums:
    """Sums over the tokens of each of a micro-batch's groups, on the device that computes them."""

    slots: tuple[int, ...]
    tokens: tuple[int, ...]
    """The number of each group's tokens."""
    sums_6G: Tensor
    """The loss and the fields of `RatioStats` of each group, in float64."""


@dataclass(frozen=True, slots=True)
class ForwardOptions:
    """How a micro-batch is computed."""

    temperature: float
    """The temperature of the distribution that is trained: that at which the samples were drawn."""
    checkpointing: bool
    """Whether activations are recomputed in the backward pass instead of kept."""
    ratio_cap: float = 2.0
    """The largest importance ratio of a token."""
    corrected: bool = False
    """Whether the tokens are weighted by their importance ratios."""
    entropy_bonus: float = 0.0
    """What is added to a token's advantage for each nat of its surprise (`with_entropy_bonus`)."""


def warm_up(decoder: Forward) -> None:
    """Runs one tiny forward and backward pass so that lazy loading and JIT compilation happen now.

    If they happened during the first batch, their long-lived allocations would sit between the activations and
    fragment the heap.
    """
    device = decoder.device
    ids_N = torch.zeros(6, dtype=torch.long, device=device)
    # A prompt of two tokens and two continuations, so that both branches of attention run.
    prefixes = [SharedPrefix(0, 2, (2, 2))]
    with torch.enable_grad():
        hidden_NH = decoder.states(ids_N, torch.tensor([0, 1, 2, 3, 2, 3], device=device), prefixes)
        logp_N = decoder.score(hidden_NH, ids_N, 1.0)
        logp_N.sum().backward()


def accumulate(
    decoder: Forward,
    bank: AdapterBank,
    gradients: Gradients,
    groups: Sequence[PromptGroup],
    options: ForwardOptions,
) -> BatchSums:
    """Adds one micro-batch's gradients of -sum(weight x ratio x log-probability) and returns sums over its tokens.

    Does not wait for the device: nothing here depends on a number that it computes.
    Raises PromptError if a sample is longer than the base's window.
    """
    # Attention here sees the whole sequence, so a longer one would be computed differently from the base's definition.
    longest = max(len(group.prompt_ids) + max(group.suffix_lengths) for group in groups)
    if decoder.window and longest > decoder.window:
        raise PromptError(f"{longest} tokens are more than this base's window of {decoder.window}")

    # A decoder that pads its batch computes it in parts, so that padding needs no more memory than the batch itself.
    parts = padded_parts(groups) if decoder.padded else [groups]
    sums = [_accumulate_part(decoder, bank, gradients, part, options) for part in parts]
    return sums[0] if len(sums) == 1 else _joined(sums)


def _accumulate_part(
    decoder: Forward,
    bank: AdapterBank,
    gradients: Gradients,
    groups: Sequence[PromptGroup],
    options: ForwardOptions,
) -> BatchSums:
    # Only the adapters' gradients are computed, inside the layers; the base's weights require none.
    batch = build_micro_batch(groups, bank.masters.device)
    slots = [group.slot for group in groups]
    with torch.enable_grad():
        hidden_NH = decoder.states(
            batch.ids_N,
            batch.position_N,
            batch.prefixes,
            lambda lengths: bank.rows(slots, lengths, gradients),
            checkpointing=options.checkpointing,
        )
        # A prompt's last row predicts the first token of each of its samples, so it is taken several times.
        source_SH = kernels_of(hidden_NH).take(hidden_NH, batch.source_S)
        logp_S = decoder.score(source_SH, batch.target_S, options.temperature)
        ratios = importance_ratios(logp_S, batch.logprob_S, options.ratio_cap)
        weight_S = batch.weight_S
        if options.entropy_bonus:
            weight_S = with_entropy_bonus(weight_S, batch.advantage_S, logp_S, options.entropy_bonus)
        if options.corrected:
            weight_S = weight_S * ratios.ratio_S
        loss_S = -weight_S * logp_S
        loss_S.sum().backward()

    # The sums run over thousands of tokens and are therefore taken in float64.
    per_token = torch.cat([loss_S.detach().double()[None], ratios.sums_5S])
    tokens = tuple(sum(len(weighted.sample.token_ids) for weighted in group.samples) for group in groups)
    sums_6G = torch.stack([columns.sum(1) for columns in per_token.split(tokens, 1)], 1)
    return BatchSums(tuple(slots), tokens, sums_6G)


# The bonus takes at most this part of an advantage's size, so no advantage changes its sign: 1 / kappa of the paper.
LARGEST_BONUS = 0.5


def with_entropy_bonus(weight_S: Tensor, advantage_S: Tensor, logp_S: Tensor, alpha: float) -> Tensor:
    """Returns the weights with min(alpha x surprise, |A| / 2) added to each token's advantage A, which is not 0.

    The surprise is -log p(token), and no gradient flows through it. The form is that of Cheng et al. (2025,
    arXiv:2506.14758), who have the entropy of the token's distribution in its place. -log p of the token that was drawn
    estimates that entropy from one sample, which costs nothing. It is nevertheless another term. Averaged over sampled
    tokens, and below the bound, its gradient is that of the token's entropy; the gradient of theirs averages to 0.
    """
    surprise_S = -logp_S.detach()
    part_S = (alpha * surprise_S / advantage_S.abs()).clamp(max=LARGEST_BONUS)
    return weight_S + weight_S.abs() * part_S


def _joined(sums: Sequence[BatchSums]) -> BatchSums:
    slots: list[int] = []
    tokens: list[int] = []
    for part in sums:
        slots += part.slots
        tokens += part.tokens
    return BatchSums(tuple(slots), tuple(tokens), torch.cat([part.sums_6G for part in sums], 1))


def read_stats(batches: Sequence[BatchSums]) -> list[dict[int, TokenStats]]:
    """Returns each micro-batch's token statistics by slot. Waits for the device once, for all of them."""
    if not batches:
        return []
    rows: list[list[float]] = torch.cat([batch.sums_6G for batch in batches], 1).T.tolist()
    values = iter(rows)
    read: list[dict[int, TokenStats]] = []
    for batch in batches:
        stats: dict[int, TokenStats] = {}
        for slot, tokens in zip(batch.slots, batch.tokens, strict=True):
            loss, *ratios = next(values)
            stats.setdefault(slot, TokenStats()).add(TokenStats(loss, tokens, RatioStats(*ratios)))
        read.append(stats)
    return read
