"""The keys and values of a batch that is being decoded, allocated once; rows come and go in place.

Shape suffixes: R rows, T tokens of a row, M tokens of all rows, K kv heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redqueen.policy.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.policy.model.decoder import Decoder

# the cache grows by so many tokens at a time
GROWTH = 32


class KVCache:
    """`rows` sequences for every layer. Row r holds tokens 0..length[r]; what lies behind is never read.

    Keys and values are [layers, R, K, T, D]. All of T takes part in a step, for a part of it would be copied each
    time: so T is what is needed now, and grows.
    """

    def __init__(self, decoder: Decoder, rows: int) -> None:
        shape = (len(decoder.layers), rows, decoder.kv_heads, 0, decoder.head_size)
        self.keys, self.values = decoder.embed_VH.new_zeros(shape), decoder.embed_VH.new_zeros(shape)
        self.length_R = torch.zeros(rows, dtype=torch.long, device=self.keys.device)

    @property
    def room(self) -> int:
        return self.keys.shape[-2]

    def reserve(self, tokens: int) -> None:
        """Makes room for sequences of `tokens`."""
        if tokens > self.room:
            more = tokens - self.room
            more += -more % GROWTH
            # zeros: whatever has weight 0 in a sum must still be a number
            self.keys = torch.nn.functional.pad(self.keys, (0, 0, 0, more))
            self.values = torch.nn.functional.pad(self.values, (0, 0, 0, more))

    def move(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Copies whole rows onto others."""
        for tensor in (self.keys, self.values):
            tensor[:, list(target)] = tensor[:, list(source)]
        self.length_R[list(target)] = self.length_R[list(source)]


@dataclass(frozen=True, slots=True)
class PrefillEntry:
    """A prompt in a flat batch (rows `prefix` of it), and the rows of the cache that continue it."""

    prefix: SharedPrefix
    rows: list[int]


class Prefill:
    """Attention over whole prompts that leaves their keys and values in the cache, once for each row."""

    def __init__(self, cache: KVCache, entries: Sequence[PrefillEntry]) -> None:
        self.cache = cache
        cache.reserve(max(entry.prefix.prompt for entry in entries))
        device = cache.keys.device
        self.attention = SharedPrefixAttention([entry.prefix for entry in entries], device)
        for entry in entries:
            cache.length_R[entry.rows] = entry.prefix.prompt
        # each prompt's tokens, once for each row that continues it: where they go, and where they come from
        places: list[tuple[int, int, int]] = []
        for entry in entries:
            for row in entry.rows:
                places += [(row, t, entry.prefix.start + t) for t in range(entry.prefix.prompt)]
        self.row_M, self.at_M, self.source_M = torch.tensor(places, device=device).unbind(1)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.cache.keys[layer][self.row_M, :, self.at_M] = k[self.source_M]
        self.cache.values[layer][self.row_M, :, self.at_M] = v[self.source_M]
        return self.attention(layer, q, k, v)
