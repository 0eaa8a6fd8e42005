"""One decode step computes the hidden state of one token of each row and appends its keys and values to the cache.

Shape suffixes: R rows, H hidden size, T tokens of a row, N rows, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from redqueen.policy.kernels.cpu import decoding
from redqueen.policy.kernels.cpu.floats import Array, as_array
from redqueen.policy.kernels.dispatch import kernels_of
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.lora.sites import Site
from redqueen.policy.lora.stacked_factors import RowAdapters, StackedFactors
from redqueen.policy.lora.training_products import group_rows
from redqueen.policy.model.decoder import Decoder, Layer
from redqueen.policy.sampling.kv_cache import KVCache

# At most so many rows of one member are multiplied with its factors in one task of a compiled kernel.
_TASK = 8


class DecodeStep(Protocol):
    """Computes the hidden states of the rows' newest tokens."""

    def assign_rows(self, slots: Sequence[int]) -> None:
        """Sets the member of each row: row r uses the adapter in `slots[r]` until the next call."""
        ...

    def __call__(self, token_R: Tensor, longest: int) -> Tensor:
        """Appends a token to each of the first R rows of the cache and returns its last hidden states [R, H].

        No row holds more than `longest` tokens yet; the host knows this number without asking the device.
        Raises ValueError if R differs from the number of assigned rows: some would be computed without an adapter.
        """
        ...


def decode_step(decoder: Decoder, bank: AdapterBank, cache: KVCache) -> DecodeStep:
    """Returns the fastest decode step for the cache's device. The members' weights must not change while it is used."""
    step = NumbaDecodeStep if kernels_of(cache.keys).compiled else TorchDecodeStep
    return step(decoder, bank, cache)


class TorchDecodeStep:
    """Computes a step with torch's operations, on any device."""

    def __init__(self, decoder: Decoder, bank: AdapterBank, cache: KVCache) -> None:
        self.decoder = decoder
        self.bank = bank
        self.cache = cache
        self.adapters: RowAdapters | None = None

    def assign_rows(self, slots: Sequence[int]) -> None:
        self.adapters = self.bank.decoding(slots)

    def __call__(self, token_R: Tensor, longest: int) -> Tensor:
        attention = _Attention(self.cache, len(token_R), longest)
        hidden_RH = self.decoder.hidden(token_R, attention.at_R, attention, self.adapters)
        self.cache.length_R[: len(token_R)] += 1
        return hidden_RH


class _Attention:
    """Attention of one new token of each row over the row's tokens in the cache, itself included."""

    def __init__(self, cache: KVCache, rows: int, longest: int) -> None:
        cache.reserve(longest + 1)
        self.cache = cache
        self.rows = rows
        width = cache.room
        device = cache.keys.device

        # A copy, because the lengths rise when the step is done.
        self.at_R = cache.length_R[:rows].clone()
        self.row_R = torch.arange(rows, device=device)

        # The whole T axis takes part, so each row masks what lies behind its own length. One mask serves all layers.
        late_RT = torch.arange(width, device=device) > self.at_R[:, None]
        mask_RT = torch.zeros(rows, width, device=device, dtype=cache.keys.dtype).masked_fill_(late_RT, float("-inf"))
        self.mask = mask_RT.repeat_interleave(cache.keys.shape[2], 0)[:, None]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self.cache.keys[layer, : self.rows], self.cache.values[layer, : self.rows]
        keys[self.row_R, :, self.at_R] = k
        values[self.row_R, :, self.at_R] = v
        heads = k.shape[1]
        size = q.shape[-1]

        # Query heads that share a kv head are the rows of one product, so keys and values are not repeated for them.
        q = q.reshape(self.rows * heads, -1, size)
        scores = torch.baddbmm(self.mask, q, keys.flatten(0, 1).mT, alpha=size**-0.5)
        mixed = torch.bmm(scores.softmax(-1), values.flatten(0, 1))
        return mixed.view(self.rows, -1, size)


@dataclass(frozen=True, slots=True)
class _Layer:
    """A decoder layer as the compiled kernels read it."""

    frozen: Layer
    """The base's weights."""
    factors: tuple[decoding.SiteFactors, ...]
    """The members' factors, in the order of the layer's sites."""
    norm_q: Array
    norm_k: Array
    norm_mlp: Array
    norm_next: Array
    """The weight of the norm that follows the layer."""


class NumbaDecodeStep:
    """Computes a layer by four frozen products and four compiled kernels (`redqueen.policy.kernels.cpu.decoding`)."""

    def __init__(self, decoder: Decoder, bank: AdapterBank, cache: KVCache) -> None:
        self.decoder = decoder
        self.cache = cache

        # NumPy views of the cache, by layer. They are made again when the cache has grown.
        self.keys: Tensor | None = None
        self.memory: list[tuple[Array, Array]] = []

        # NumPy views of all weights are made here, once, and not in each step.
        # They point into the bank, so a member's new weights are seen, but a bank that moved its memory would not be.
        absent = decoder.norm_H[:0]
        self.layers: list[_Layer] = []
        for index, layer in enumerate(decoder.layers):
            self.layers.append(
                _Layer(
                    frozen=layer,
                    factors=tuple(_factors(site, bank.stacked.get(site.name)) for site in layer.sites),
                    norm_q=as_array(absent if layer.norm_q is None else layer.norm_q),
                    norm_k=as_array(absent if layer.norm_k is None else layer.norm_k),
                    norm_mlp=as_array(layer.norm_mlp),
                    norm_next=as_array(decoder.norm_after(index)),
                )
            )

        # Memory for one task's intermediate results, large enough for every site.
        shapes = [site.weight.shape for site in decoder.sites]
        widths = [factors.inner_width for factors in bank.stacked.values()]
        self.work = (
            np.empty(_TASK * max(inputs for _, inputs in shapes), np.float32),
            np.empty((_TASK, max(widths)), np.float32),
            np.empty((_TASK, max(outputs for outputs, _ in shapes)), np.float32),
        )

    def assign_rows(self, slots: Sequence[int]) -> None:
        # The rows stay where they are in the cache: the kernels read them in the order of their members.
        order = sorted(range(len(slots)), key=lambda row: slots[row])
        tasks: list[tuple[int, int, int]] = []
        for slot, start, end in group_rows([slots[row] for row in order]):
            for at in range(start, end, _TASK):
                tasks.append((slot, at, min(at + _TASK, end)))
        self.rows = decoding.RowTasks(np.array(order), np.array(tasks), *self.work)

    def __call__(self, token_R: Tensor, longest: int) -> Tensor:
        decoder = self.decoder
        rows = self.rows
        eps = decoder.eps
        self._reserve(longest + 1)
        at_R = self.cache.length_R[: len(token_R)]

        # The compiled kernels do no bounds checks: a wrong number here would write outside the cache.
        if len(token_R) != len(rows.order) or int(at_R.max()) > longest:
            announced = f"{len(rows.order)} rows of at most {longest} tokens"
            raise ValueError(
                f"a step of {len(token_R)} rows, the longest of {int(at_R.max())} tokens; announced were {announced}"
            )

        # Each buffer is a tensor for the frozen products and an array over the same memory for the kernels, which
        # overwrite it in place.
        cos, sin = (as_array(half) for half in decoder.angles(at_R))
        x = F.embedding(token_R, decoder.embed_VH)
        _, unit = kernels_of(x).norm(x, None, decoder.layers[0].norm_in, eps)
        mixed = x.new_empty(len(x), decoder.heads * decoder.head_size)
        gated = x.new_empty(len(x), decoder.layers[0].down.weight.shape[1])
        at = as_array(at_R)
        stream = as_array(x)
        to_unit = as_array(unit)
        to_mixed = as_array(mixed)
        to_gated = as_array(gated)

        for layer, (keys, values) in zip(self.layers, self.memory, strict=True):
            own = layer.frozen
            qkv, o, gate_up, down = layer.factors
            heads = decoding.AttentionSettings(
                decoder.heads, decoder.kv_heads, cos, sin, layer.norm_q, layer.norm_k, eps
            )
            decoding.attend(rows, qkv, to_unit, as_array(own.qkv.frozen(unit)), heads, keys, values, at, to_mixed)
            decoding.close(rows, o, to_mixed, as_array(own.o.frozen(mixed)), stream, layer.norm_mlp, eps, to_unit)
            decoding.gate(rows, gate_up, to_unit, as_array(own.gate_up.frozen(unit)), to_gated)
            decoding.close(
                rows, down, to_gated, as_array(own.down.frozen(gated)), stream, layer.norm_next, eps, to_unit
            )
        # `at_R` is a view of the cache's lengths, which therefore rise here.
        at_R += 1
        return unit

    def _reserve(self, tokens: int) -> None:
        self.cache.reserve(tokens)
        # A cache that has grown holds new tensors; the old views would still point to the old memory.
        if self.keys is not self.cache.keys:
            self.keys = self.cache.keys
            self.memory = [(as_array(k), as_array(v)) for k, v in zip(self.keys, self.cache.values, strict=True)]


def _factors(site: Site, stacked: StackedFactors | None) -> decoding.SiteFactors:
    """Returns a site's factors for the kernels; empty arrays of rank 0 if no adapter changes the site."""
    if stacked is None:
        # Numba compiles for the types of its arguments, so an absent array has the dtype of a present one.
        empty = site.weight[0, :0]
        return decoding.SiteFactors(as_array(empty.view(0, 0, 0)), as_array(empty), np.empty((0, 2), np.int64), 0)
    columns = np.array([(projection.out.start, projection.out.stop) for projection in stacked.projections])
    return decoding.SiteFactors(as_array(stacked.a_copy), as_array(stacked.b_copy), columns, stacked.rank)
