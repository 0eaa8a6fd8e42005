"""The joint forward and backward pass: it adds to the gradients of all members that played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from redqueen.errors import PromptError
from redqueen.policy.learning.packing import Pack, assemble
from redqueen.policy.lora.adapter_bank import AdapterBank, Gradients
from redqueen.policy.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.policy.model.decoder import Decoder
from redqueen.policy.model.logprobs import TokenLogprobs


@dataclass(slots=True)
class Tally:
    """Sums over one member's trained tokens; `gap` is of |sampler's - learner's| log-probabilities."""

    loss: float = 0.0
    entropy: float = 0.0
    gap: float = 0.0
    tokens: int = 0

    def add(self, other: Tally) -> None:
        self.loss += other.loss
        self.entropy += other.entropy
        self.gap += other.gap
        self.tokens += other.tokens


@dataclass(frozen=True, slots=True)
class Pass:
    """How a micro-batch is computed."""

    temperature: float
    checkpointing: bool


def rehearse(decoder: Decoder) -> None:
    """A pass over a few tokens of the base: it loads, or compiles, whatever comes only with the first use.

    Loaded among a batch's activations, that would stay there when they are freed, and leave the heap in pieces.
    """
    device = decoder.embed_VH.device
    ids_N = torch.zeros(6, dtype=torch.long, device=device)
    attention = SharedPrefixAttention([SharedPrefix(0, 2, (2, 2))], device)
    with torch.enable_grad():
        hidden_NH = decoder.hidden(ids_N, torch.arange(6, device=device), attention)
        logp_N, _ = TokenLogprobs.apply(hidden_NH, decoder.head.weight, ids_N, 1.0)
        logp_N.sum().backward()


def accumulate(
    decoder: Decoder, bank: AdapterBank, gradients: Gradients, packs: Sequence[Pack], how: Pass
) -> dict[int, Tally]:
    """Adds one micro-batch's gradients of -sum(weight x log-probability); what its tokens say, by slot.

    Raises PromptError for a sample that is longer than the base's sliding window.
    """
    device = bank.masters.device
    longest = max(len(pack.prompt_ids) + max(pack.tails) for pack in packs)
    if decoder.window and longest > decoder.window:
        raise PromptError(f"{longest} tokens are more than this base's sliding window of {decoder.window}")
    batch = assemble(packs, device)
    rows = bank.rows([pack.slot for pack in packs], [pack.tokens for pack in packs], gradients)
    with torch.enable_grad():
        hidden_NH = decoder.hidden(
            batch.ids_N,
            batch.position_N,
            SharedPrefixAttention(batch.prefixes, device),
            rows,
            checkpointing=how.checkpointing,
        )
        logp_S, entropy_S = TokenLogprobs.apply(
            hidden_NH[batch.source_S], decoder.head.weight, batch.target_S, how.temperature
        )
        loss_S = -batch.weight_S * logp_S
        loss_S.sum().backward()
    numbers = torch.stack([loss_S.detach(), entropy_S, (logp_S.detach() - batch.logprob_S).abs()]).double()
    tallies: dict[int, Tally] = {}
    start = 0
    for pack in packs:
        end = start + sum(len(item.sample.token_ids) for item in pack.items)
        loss, entropy, gap = numbers[:, start:end].sum(1).tolist()
        tallies.setdefault(pack.slot, Tally()).add(Tally(loss, entropy, gap, end - start))
        start = end
    return tallies
