"""How differently two members write: the exact Kullback-Leibler divergence of their next-token distributions.

Shape suffixes: N rows (tokens that go through the model), S scored tokens, C tokens of a chunk, H hidden size,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from redqueen.analysis.replay import Loaded
from redqueen.policy.learning.packing import Pack, Weighted, assemble, micro_batches
from redqueen.policy.model.attention import SharedPrefixAttention
from redqueen.policy.model.logprobs import CHUNK
from redqueen.records import Completion, Sample


@torch.inference_mode()
def mean_kl(loaded: Loaded, parent: str, children: Sequence[str], written: Sequence[Completion]) -> Mapping[str, float]:
    """KL(parent ‖ child) in nats per token of `written`, by child; over the whole vocabulary, at temperature 1.

    With texts that the parent wrote at temperature 1 the sum over a text's tokens estimates the divergence of the two
    distributions over whole texts. Never more than `CHUNK` rows of logits of each are held.
    Raises ValueError if nothing was written.
    """
    count = sum(len(completion.token_ids) for completion in written)
    if not count:
        raise ValueError("no token to compare members on")
    totals = dict.fromkeys(children, 0.0)
    for own, *others in zip(*(_batches(loaded, name, written) for name in (parent, *children)), strict=True):
        reference_SH = _hidden(loaded, own)
        for child, packs in zip(children, others, strict=True):
            totals[child] += _divergence(loaded, reference_SH, _hidden(loaded, packs))
    return {child: total / count for child, total in totals.items()}


def _batches(loaded: Loaded, member: str, written: Sequence[Completion]) -> Iterator[list[Pack]]:
    """The same micro-batches for every member, but for the slot."""
    slot = loaded.policy.adapters.slots[member]
    items = [
        Weighted(
            Sample(member=member, prompt_ids=c.prompt_ids, token_ids=c.token_ids, logprobs=c.logprobs, advantage=1.0),
            slot,
            1.0,
        )
        for c in written
    ]
    return micro_batches(items, loaded.config.learning.batch_tokens)


def _hidden(loaded: Loaded, packs: Sequence[Pack]) -> Tensor:
    """The states [S, H] that predict the scored tokens."""
    device = loaded.policy.base.device
    batch = assemble(packs, device)
    rows = loaded.policy.adapters.rows([pack.slot for pack in packs], [pack.tokens for pack in packs])
    attention = SharedPrefixAttention(batch.prefixes, device)
    return loaded.policy.base.decoder.hidden(batch.ids_N, batch.position_N, attention, rows)[batch.source_S]


def _divergence(loaded: Loaded, p_SH: Tensor, q_SH: Tensor) -> float:
    """The sum over all rows."""
    total, head = 0.0, loaded.policy.base.decoder.head
    for start in range(0, len(p_SH), CHUNK):
        chunk = slice(start, start + CHUNK)
        log_p_CV = head(p_SH[chunk]).float().log_softmax(-1)
        log_q_CV = head(q_SH[chunk]).float().log_softmax(-1)
        total += float((log_p_CV.exp() * (log_p_CV - log_q_CV)).sum(dtype=torch.float64))
    return total
