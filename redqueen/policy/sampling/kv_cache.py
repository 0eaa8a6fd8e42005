"""The KV cache of a continuous batch: rows are allocated once and reused when their sequence has ended.

Shape suffixes: R rows, T tokens of a row, M tokens of all rows, K kv heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redqueen.policy.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.policy.model.decoder import Decoder

# The T axis grows by multiples of this. Growing copies the whole cache, so it must be rare; a longer axis makes every
# step read more, so it must not be generous.
GROWTH = 32


class KVCache:
    """Keys and values [layers, R, K, T, D] of `rows` sequences. Row r holds its first `length_R[r]` tokens.

    Values behind a row's length have weight 0 in its attention. Each step reads the whole T axis (slicing would copy),
    so T is kept as short as the longest sequence so far and grows in blocks of 32.
    """

    def __init__(self, decoder: Decoder, rows: int) -> None:
        shape = (len(decoder.layers), rows, decoder.kv_heads, 0, decoder.head_size)
        self.keys = decoder.embed_VH.new_zeros(shape)
        self.values = decoder.embed_VH.new_zeros(shape)
        self.length_R = torch.zeros(rows, dtype=torch.long, device=self.keys.device)

    @property
    def room(self) -> int:
        """How many tokens each row can hold now."""
        return self.keys.shape[-2]

    def reserve(self, tokens: int) -> None:
        """Grows the cache until each row can hold `tokens` tokens. Tensors taken from it before are then stale."""
        if tokens > self.room:
            more = tokens - self.room
            more += -more % GROWTH
            # New places hold zeros and not uninitialised memory: attention multiplies them by the weight 0, and 0
            # times NaN is NaN.
            self.keys = torch.nn.functional.pad(self.keys, (0, 0, 0, more))
            self.values = torch.nn.functional.pad(self.values, (0, 0, 0, more))

    def move(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Copies each row of `source` to the row of `target` at the same place."""
        for tensor in (self.keys, self.values):
            tensor[:, list(target)] = tensor[:, list(source)]
        self.length_R[list(target)] = self.length_R[list(source)]


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
        cache.reserve(max(entry.prefix.prompt for entry in entries))
        device = cache.keys.device
        self.attention = SharedPrefixAttention([entry.prefix for entry in entries], device)
        for entry in entries:
            cache.length_R[entry.rows] = entry.prefix.prompt

        # A list of copies, the same for all layers: cache row, token of that row, row of the flat batch. A prompt that
        # n rows continue is computed once and written n times.
        places: list[tuple[int, int, int]] = []
        for entry in entries:
            for row in entry.rows:
                places += [(row, t, entry.prefix.start + t) for t in range(entry.prefix.prompt)]
        self.row_M, self.at_M, self.source_M = torch.tensor(places, device=device).unbind(1)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.cache.keys[layer][self.row_M, :, self.at_M] = k[self.source_M]
        self.cache.values[layer][self.row_M, :, self.at_M] = v[self.source_M]
        return self.attention(layer, q, k, v)
