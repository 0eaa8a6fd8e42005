"""How differently two members write: the exact Kullback-Leibler divergence of their next-token distributions.

Shape suffixes: N rows (tokens that go through the model), S scored tokens, C tokens of a chunk, H hidden size,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from redqueen.analysis.replay import Replay
from redqueen.engine.learning.packing import PromptGroup, WeightedSample, build_micro_batch, micro_batches
from redqueen.records import Completion, Sample

# The rows whose logits are held at a time.
_CHUNK = 128


@torch.inference_mode()
def mean_kl(replay: Replay, parent: str, children: Sequence[str], written: Sequence[Completion]) -> Mapping[str, float]:
    """Returns KL(parent ‖ child) in nats per token of `written`, by child: over the whole vocabulary, at temperature 1.

    If the parent wrote the texts at temperature 1, the sum over a text's tokens estimates the divergence of the two
    distributions over whole texts. At most 128 rows of logits of each member are held at a time.
    Raises ValueError if nothing was written.
    """
    count = sum(len(completion.token_ids) for completion in written)
    if not count:
        raise ValueError("no token to compare members on")
    totals = dict.fromkeys(children, 0.0)
    # The micro-batches of all members advance together, so that the parent's states are computed once for all children
    # and only one micro-batch of each member is held at a time.
    batches = [_batches(replay, name, written) for name in (parent, *children)]
    for of_parent, *others in zip(*batches, strict=True):
        reference_SH = _hidden(replay, of_parent)
        for child, groups in zip(children, others, strict=True):
            totals[child] += _divergence(replay, reference_SH, _hidden(replay, groups))
    return {child: total / count for child, total in totals.items()}


def _batches(replay: Replay, member: str, written: Sequence[Completion]) -> Iterator[list[PromptGroup]]:
    """Yields the same micro-batches for every member; only the slot differs."""
    slot = replay.policy.adapters.slots[member]
    # Packing wants samples with advantages and weights, as training does. No loss is computed here, so that any value
    # serves.
    items = [
        WeightedSample(
            Sample(member=member, prompt_ids=c.prompt_ids, token_ids=c.token_ids, logprobs=c.logprobs, advantage=1.0),
            slot,
            1.0,
        )
        for c in written
    ]
    return micro_batches(items, replay.config.learning.batch_tokens)


def _hidden(replay: Replay, groups: Sequence[PromptGroup]) -> Tensor:
    """Returns the states [S, H] that predict the scored tokens."""
    device = replay.policy.base.device
    batch = build_micro_batch(groups, device)
    slots = [group.slot for group in groups]
    hidden_NH = replay.policy.base.decoder.states(
        batch.ids_N, batch.position_N, batch.prefixes, lambda lengths: replay.policy.adapters.rows(slots, lengths)
    )
    return hidden_NH[batch.source_S]


def _divergence(replay: Replay, p_SH: Tensor, q_SH: Tensor) -> float:
    """Returns the sum over all rows of the divergence of `q` from `p`, in nats."""
    # The sum over the vocabulary is exact: a divergence of two close members is small, and an estimate from the drawn
    # tokens alone would be mostly noise. Logits are made in chunks, because [S, V] of two members would fill memory.
    # Chunks are summed in float64: thousands of small terms are added.
    total = 0.0
    decoder = replay.policy.base.decoder
    for start in range(0, len(p_SH), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        log_p_CV = decoder.logits(p_SH[chunk]).float().log_softmax(-1)
        log_q_CV = decoder.logits(q_SH[chunk]).float().log_softmax(-1)
        total += float((log_p_CV.exp() * (log_p_CV - log_q_CV)).sum(dtype=torch.float64))
    return total
