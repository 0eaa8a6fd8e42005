"""The decode step of a CPU, whose kernels Numba compiles. Only this module's users need numba.

Shape suffixes: R rows, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from redqueen.engine.kernels import numba_decoding
from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.kernels.numba_floats import Array, as_array
from redqueen.engine.kernels.torch_ops import HeadNorms
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.lora.products import group_rows
from redqueen.engine.lora.sites import Site, StackedFactors
from redqueen.engine.model.decoder import Decoder, Layer
from redqueen.engine.sampling.kv_cache import KVCache

# At most so many rows of one member are multiplied with its factors in one task of a compiled kernel.
_TASK = 8


@dataclass(frozen=True, slots=True)
class _Layer:
    """A decoder layer as the compiled kernels read it."""

    frozen: Layer
    """The base's weights."""
    factors: tuple[numba_decoding.SiteFactors, ...]
    """The members' factors, in the order of the layer's sites."""
    norm_q: Array
    norm_k: Array
    norm_mlp: Array
    norm_next: Array
    """The weight of the norm that follows the layer."""


class NumbaDecodeStep:
    """Computes a layer by four frozen products and four compiled kernels (`redqueen.engine.kernels.numba_decoding`)."""

    recordable = False

    def __init__(self, decoder: Decoder, bank: AdapterBank, cache: KVCache) -> None:
        self.decoder = decoder
        self.cache = cache

        # NumPy views of the cache, by layer, and of all weights are made here, once, and not in each step.
        # They point into the bank, so a member's new weights are seen, but a bank that moved its memory would not be.
        self.memory = [(as_array(k), as_array(v)) for k, v in zip(cache.keys, cache.values, strict=True)]
        absent = HeadNorms(decoder.norm_H[:0], decoder.norm_H[:0], decoder.eps)
        self.layers: list[_Layer] = []
        for index, layer in enumerate(decoder.layers):
            norms = layer.head_norms or absent
            self.layers.append(
                _Layer(
                    frozen=layer,
                    factors=tuple(_factors(site, bank.stacked.get(site.name)) for site in layer.sites),
                    norm_q=as_array(norms.q),
                    norm_k=as_array(norms.k),
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
        self.rows = numba_decoding.RowTasks(np.array(order), np.array(tasks), *self.work)

    def __call__(self, token_R: Tensor) -> Tensor:
        decoder = self.decoder
        rows = self.rows
        eps = decoder.eps
        at_R = self.cache.length_R[: len(token_R)]

        # The compiled kernels do no bounds checks: a wrong number here would write outside the cache.
        if len(token_R) != len(rows.order):
            raise ValueError(f"a step of {len(token_R)} rows, but the members of {len(rows.order)} are known")
        if int(at_R.max()) >= self.cache.room:
            raise ValueError(f"a row of {int(at_R.max())} tokens, in a cache with room for {self.cache.room}")

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
            heads = numba_decoding.AttentionSettings(
                decoder.heads, decoder.kv_heads, cos, sin, layer.norm_q, layer.norm_k, eps
            )
            numba_decoding.attend(rows, qkv, to_unit, as_array(own.qkv.frozen(unit)), heads, keys, values, at, to_mixed)
            numba_decoding.close(rows, o, to_mixed, as_array(own.o.frozen(mixed)), stream, layer.norm_mlp, eps, to_unit)
            numba_decoding.gate(rows, gate_up, to_unit, as_array(own.gate_up.frozen(unit)), to_gated)
            numba_decoding.close(
                rows, down, to_gated, as_array(own.down.frozen(gated)), stream, layer.norm_next, eps, to_unit
            )
        self.cache.advance(len(token_R))
        return unit


def _factors(site: Site, stacked: StackedFactors | None) -> numba_decoding.SiteFactors:
    """Returns a site's factors for the kernels; empty arrays of rank 0 if no adapter changes the site."""
    if stacked is None:
        # Numba compiles for the types of its arguments, so an absent array has the dtype of a present one.
        empty = site.weight[0, :0]
        return numba_decoding.SiteFactors(as_array(empty.view(0, 0, 0)), as_array(empty), np.empty((0, 2), np.int64), 0)
    columns = np.array([(projection.out.start, projection.out.stop) for projection in stacked.projections])
    return numba_decoding.SiteFactors(as_array(stacked.a_copy), as_array(stacked.b_copy), columns, stacked.rank)
