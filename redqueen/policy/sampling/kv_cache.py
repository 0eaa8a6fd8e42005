"""The KV cache of a continuous batch: memory that is allocated once, whose rows are used again by other sequences.

Shape suffixes: R rows, T tokens of a row, M tokens of all rows, K kv heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redqueen.policy.kernels.transfer import to_device
from redqueen.policy.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.policy.model.decoder import Decoder


class KVCache:
    """Keys and values [layers, R, K, T, D] of `rows` sequences of up to `room` tokens.

    Row r holds its first `length_R[r]` tokens, and never more than `limit_R[r]`. What lies behind is never read: the
    memory is not initialised, so a CPU's system provides only those pages that sequences have reached.
    """

    def __init__(self, decoder: Decoder, rows: int, room: int) -> None:
        shape = (len(decoder.layers), rows, decoder.kv_heads, room, decoder.head_size)
        self.room = room
        self.keys = decoder.embed_VH.new_empty(shape)
        self.values = decoder.embed_VH.new_empty(shape)
        device = self.keys.device
        self.length_R = torch.zeros(rows, dtype=torch.long, device=device)
        # The last place is left for the step of a row that is full: it writes there, and is not counted.
        self.limit_R = torch.full((rows,), room - 1, dtype=torch.long, device=device)

    def advance(self, rows: int) -> None:
        """Counts the token that a step has written to each of the first rows."""
        # A row that has ended takes part in steps until the host notices. It stays at its limit.
        length_R = self.length_R[:rows].add_(1)
        torch.minimum(length_R, self.limit_R[:rows], out=length_R)

    def move(self, source_M: Tensor, target_M: Tensor, tokens: int) -> None:
        """Copies rows of at most `tokens` tokens, each row of `source_M` to the one of `target_M` at the same place."""
        # Layer by layer, because the rows are copied twice: all layers at once would take gigabytes on a GPU.
        for tensor in (self.keys, self.values):
            for layer in tensor[..., :tokens, :]:
                layer[target_M] = layer[source_M]
        for per_row in (self.length_R, self.limit_R):
            per_row[target_M] = per_row[source_M]


@dataclass(frozen=True, slots=True)
class PrefillEntry:
    """One prompt of a flat batch."""

    prefix: SharedPrefix
    """Where the prompt's tokens are in the batch."""
    rows: list[int]
    """The rows of the cache that continue the prompt."""


class Prefill:
    """Attention over whole prompts. It copies a prompt's keys and values to each row of the cache that continues it."""

    def __init__(self, cache: KVCache, entries: Sequence[PrefillEntry]) -> None:
        self.cache = cache
        device = cache.keys.device
        self.attention = SharedPrefixAttention([entry.prefix for entry in entries], device)

        # A list of copies, the same for all layers: cache row, token of that row, row of the flat batch. A prompt that
        # n rows continue is computed once and written n times.
        rows: list[int] = []
        starts: list[int] = []
        lengths: list[int] = []
        for entry in entries:
            rows += entry.rows
            starts += [entry.prefix.start] * len(entry.rows)
            lengths += [entry.prefix.prompt] * len(entry.rows)
        per_row = torch.tensor([rows, starts, lengths])
        length_R = per_row[2]
        row_M, start_M = per_row[:2].repeat_interleave(length_R, 1)
        before_M = (length_R.cumsum(0) - length_R).repeat_interleave(length_R)
        at_M = torch.arange(len(row_M)) - before_M
        self.row_M, self.at_M, self.source_M = to_device(torch.stack([row_M, at_M, start_M + at_M]), device)

        row_R, _, length_R = to_device(per_row, device)
        cache.length_R[row_R] = length_R

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.cache.keys[layer][self.row_M, :, self.at_M] = k[self.source_M]
        self.cache.values[layer][self.row_M, :, self.at_M] = v[self.source_M]
        return self.attention(layer, q, k, v)
