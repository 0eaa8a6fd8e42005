"""A key/value cache that is allocated once for a batch, so that a decoding step copies nothing but its own row."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer


class SlabLayer(DynamicLayer):
    """One layer's keys and values, [batch, heads, room, head size], filled from the left."""

    def __init__(self, keys: Tensor, values: Tensor, room: int) -> None:
        super().__init__()
        batch, heads, length, size = keys.shape
        self.lazy_initialization(keys, values)
        self.slab_keys = keys.new_empty(batch, heads, length + room, size)
        self.slab_values = values.new_empty(batch, heads, length + room, size)
        self.length = 0
        self.update(keys, values)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        end = self.length + key_states.shape[-2]
        self.slab_keys[:, :, self.length : end] = key_states
        self.slab_values[:, :, self.length : end] = value_states
        self.length = end
        self.keys, self.values = self.slab_keys[:, :, :end], self.slab_values[:, :, :end]
        return self.keys, self.values

    def keep(self, rows: Tensor) -> None:
        """Drops all rows of the batch but `rows`."""
        self.slab_keys, self.slab_values = self.slab_keys[rows], self.slab_values[rows]
        self.keys = self.slab_keys[:, :, : self.length]
        self.values = self.slab_values[:, :, : self.length]


class SlabCache(DynamicCache):
    """All layers of a batch that is being decoded."""

    def __init__(self, layers: list[SlabLayer]) -> None:
        super().__init__()
        self.slabs = layers
        self.layers: list[Any] = [*layers]

    @classmethod
    def fan_out(cls, prefilled: DynamicCache, rows: Tensor, room: int) -> SlabCache:
        """A cache whose row i continues row `rows[i]` of `prefilled`, with space for `room` more tokens."""
        layers: list[Any] = [*prefilled.layers]
        return cls([SlabLayer(layer.keys[rows], layer.values[rows], room) for layer in layers])

    def keep(self, rows: Tensor) -> None:
        """Drops all rows of the batch but `rows`."""
        for layer in self.slabs:
            layer.keep(rows)
