"""One step of decoding: a token of each row goes through the decoder and joins the cache.

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

# rows whose products with one member's factors are computed together
_TASK = 8


class DecodeStep(Protocol):
    """Puts tokens through the decoder; `assign_rows` says whose rows they are, until it is called again."""

    def assign_rows(self, slots: Sequence[int]) -> None:
        """Row r belongs to `slots[r]`."""
        ...

    def __call__(self, token_R: Tensor, longest: int) -> Tensor:
        """The last hidden states [R, H] of a token for each of the first R rows of the cache, appended to it. No row
        is longer than `longest`, which the host knows without asking the device.

        Raises ValueError if R is not what `assign_rows` was told: rows would go without adapters.
        """
        ...


def decode_step(decoder: Decoder, bank: AdapterBank, cache: KVCache) -> DecodeStep:
    """The way of stepping that this device wants. The members' weights must not change while it is used."""
    return (NumbaDecodeStep if kernels_of(cache.keys).compiled else TorchDecodeStep)(decoder, bank, cache)


class TorchDecodeStep:
    """Of torch's operations, on any device."""

    def __init__(self, decoder: Decoder, bank: AdapterBank, cache: KVCache) -> None:
        self.decoder, self.bank, self.cache = decoder, bank, cache
        self.adapters: RowAdapters | None = None

    def assign_rows(self, slots: Sequence[int]) -> None:
        self.adapters = self.bank.decoding(slots)

    def __call__(self, token_R: Tensor, longest: int) -> Tensor:
        attention = _Attention(self.cache, len(token_R), longest)
        hidden_RH = self.decoder.hidden(token_R, attention.at_R, attention, self.adapters)
        self.cache.length_R[: len(token_R)] += 1
        return hidden_RH


class _Attention:
    def __init__(self, cache: KVCache, rows: int, longest: int) -> None:
        cache.reserve(longest + 1)
        self.cache, self.rows, width = cache, rows, cache.room
        device = cache.keys.device
        self.at_R = cache.length_R[:rows].clone()
        self.row_R = torch.arange(rows, device=device)
        late_RT = torch.arange(width, device=device) > self.at_R[:, None]
        mask_RT = torch.zeros(rows, width, device=device, dtype=cache.keys.dtype).masked_fill_(late_RT, float("-inf"))
        self.mask = mask_RT.repeat_interleave(cache.keys.shape[2], 0)[:, None]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self.cache.keys[layer, : self.rows], self.cache.values[layer, : self.rows]
        keys[self.row_R, :, self.at_R] = k
        values[self.row_R, :, self.at_R] = v
        heads, size = k.shape[1], q.shape[-1]
        q = q.reshape(self.rows * heads, -1, size)
        scores = torch.baddbmm(self.mask, q, keys.flatten(0, 1).mT, alpha=size**-0.5)
        mixed = torch.bmm(scores.softmax(-1), values.flatten(0, 1))
        return mixed.view(self.rows, -1, size)


@dataclass(frozen=True, slots=True)
class _Layer:
    """A decoder layer as the compiled kernels read it: factors by site; `norm_next` is the norm that follows it."""

    own: Layer
    factors: tuple[decoding.SiteFactors, ...]
    norm_q: Array
    norm_k: Array
    norm_mlp: Array
    norm_next: Array


class NumbaDecodeStep:
    """Computes a layer by four frozen products and four compiled kernels (`redqueen.policy.kernels.cpu.decoding`)."""

    def __init__(self, decoder: Decoder, bank: AdapterBank, cache: KVCache) -> None:
        self.decoder, self.cache = decoder, cache
        self.keys: Tensor | None = None
        self.memory: list[tuple[Array, Array]] = []
        none = decoder.norm_H[:0]
        self.layers = [
            _Layer(
                layer,
                tuple(_factors(site, bank.stacked.get(site.name)) for site in layer.sites),
                as_array(none if layer.norm_q is None else layer.norm_q),
                as_array(none if layer.norm_k is None else layer.norm_k),
                as_array(layer.norm_mlp),
                as_array(decoder.norm_after(index)),
            )
            for index, layer in enumerate(decoder.layers)
        ]
        shapes = [site.weight.shape for site in decoder.sites]
        widths = [factors.inner_width for factors in bank.stacked.values()]
        self.work = (
            np.empty(_TASK * max(inputs for _, inputs in shapes), np.float32),
            np.empty((_TASK, max(widths)), np.float32),
            np.empty((_TASK, max(outputs for outputs, _ in shapes)), np.float32),
        )

    def assign_rows(self, slots: Sequence[int]) -> None:
        order = sorted(range(len(slots)), key=lambda row: slots[row])
        groups = group_rows([slots[row] for row in order])
        tasks = [(slot, at, min(at + _TASK, end)) for slot, start, end in groups for at in range(start, end, _TASK)]
        self.rows = decoding.RowTasks(np.array(order), np.array(tasks), *self.work)

    def __call__(self, token_R: Tensor, longest: int) -> Tensor:
        decoder, rows, eps = self.decoder, self.rows, self.decoder.eps
        self._reserve(longest + 1)
        at_R = self.cache.length_R[: len(token_R)]
        # The compiled kernels do no bounds checks.
        if len(token_R) != len(rows.order) or int(at_R.max()) > longest:
            known = f"{len(rows.order)} of at most {longest} tokens"
            raise ValueError(
                f"a step of {len(token_R)} rows, the longest of {int(at_R.max())} tokens: known are {known}"
            )
        cos, sin = (as_array(half) for half in decoder.angles(at_R))
        x = F.embedding(token_R, decoder.embed_VH)
        _, unit = kernels_of(x).norm(x, None, decoder.layers[0].norm_in, eps)
        mixed = x.new_empty(len(x), decoder.heads * decoder.head_size)
        gated = x.new_empty(len(x), decoder.layers[0].down.weight.shape[1])
        at, stream, to_unit, to_mixed, to_gated = (
            as_array(at_R),
            as_array(x),
            as_array(unit),
            as_array(mixed),
            as_array(gated),
        )
        for layer, (keys, values) in zip(self.layers, self.memory, strict=True):
            own, (qkv, o, gate_up, down) = layer.own, layer.factors
            heads = decoding.AttentionSettings(
                decoder.heads, decoder.kv_heads, cos, sin, layer.norm_q, layer.norm_k, eps
            )
            decoding.attend(rows, qkv, to_unit, as_array(own.qkv.frozen(unit)), heads, keys, values, at, to_mixed)
            decoding.close(rows, o, to_mixed, as_array(own.o.frozen(mixed)), stream, layer.norm_mlp, eps, to_unit)
            decoding.gate(rows, gate_up, to_unit, as_array(own.gate_up.frozen(unit)), to_gated)
            decoding.close(
                rows, down, to_gated, as_array(own.down.frozen(gated)), stream, layer.norm_next, eps, to_unit
            )
        at_R += 1
        return unit

    def _reserve(self, tokens: int) -> None:
        self.cache.reserve(tokens)
        if self.keys is not self.cache.keys:  # as it has grown
            self.keys = self.cache.keys
            self.memory = [(as_array(k), as_array(v)) for k, v in zip(self.keys, self.cache.values, strict=True)]


def _factors(site: Site, stacked: StackedFactors | None) -> decoding.SiteFactors:
    if stacked is None:
        none = site.weight[0, :0]
        return decoding.SiteFactors(as_array(none.view(0, 0, 0)), as_array(none), np.empty((0, 2), np.int64), 0)
    columns = np.array([(projection.out.start, projection.out.stop) for projection in stacked.projections])
    return decoding.SiteFactors(as_array(stacked.a_copy), as_array(stacked.b_copy), columns, stacked.rank)
