"""One decode step computes the hidden state of one token of each row and appends its keys and values to the cache.

Shape suffixes: R rows, H hidden size.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from torch import Tensor

from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.decoder import Decoder
from redqueen.engine.model.forward import Forward
from redqueen.engine.model.hosted import HostedDecoder
from redqueen.engine.sampling.cached_attention import cached_attention
from redqueen.engine.sampling.hosted_decoding import HostedDecoding
from redqueen.engine.sampling.kv_cache import KVCache, Prefill, PrefillEntry
from redqueen.engine.sampling.pages import Pages, batch_pages, pages_suit


class DecodeStep(Protocol):
    """Computes the hidden states of the rows' newest tokens."""

    recordable: bool
    """Whether a step of as many rows is always the same work on the same memory, so that it can be recorded."""

    def assign_rows(self, slots: Sequence[int]) -> None:
        """Sets the member of each row: row r uses the adapter in `slots[r]` until the next call."""
        ...

    def __call__(self, token_R: Tensor) -> Tensor:
        """Appends a token to each of the first R rows of the cache and returns its last hidden states [R, H].

        Raises ValueError if R differs from the number of assigned rows: some would be computed without an adapter.
        """
        ...


class Decoding(NamedTuple):
    """How a batch is decoded with one forward pass."""

    cache: KVCache | HostedDecoding
    """The keys and values of its rows."""
    step: DecodeStep
    prefill: Callable[[Tensor, Tensor, Sequence[PrefillEntry], Sequence[int]], Tensor]
    """Computes prompts (tokens and positions [N], entries, slots, which ascend) into the cache; returns [N, H]."""
    pages: Pages | None
    """The pages that keys and values lie in; None where they do not."""


def open_decoding(decoder: Forward, bank: AdapterBank, rows: int, room: int, cache_tokens: int = 0) -> Decoding:
    """Returns the decoding of `rows` rows of at most `room` tokens with either of the two forward passes.

    `cache_tokens` is how many tokens all rows have together, where keys and values are in pages; 0: any number.
    """
    if isinstance(decoder, HostedDecoder):
        hosted = HostedDecoding(decoder, bank, rows)
        return Decoding(hosted, hosted, hosted.prefill, None)
    own = cast(Decoder, decoder)
    paged = pages_suit(own.embed_VH.new_empty(0, own.head_size))
    pages = Pages(batch_pages(rows, room, cache_tokens), rows) if paged else None
    cache = KVCache(own, rows, room, pages)

    def prefill(ids_N: Tensor, position_N: Tensor, entries: Sequence[PrefillEntry], slots: Sequence[int]) -> Tensor:
        adapters = bank.rows(slots, [entry.prefix.prompt for entry in entries])
        return own.hidden(ids_N, position_N, Prefill(cache, entries), adapters)

    return Decoding(cache, decode_step(own, bank, cache), prefill, pages)


def decode_step(decoder: Decoder, bank: AdapterBank, cache: KVCache) -> DecodeStep:
    """Returns the fastest decode step for the cache's device. The members' weights must not change while it is used."""
    # The compiled step of a CPU reads a row's tokens where they lie one after the other.
    if cache.pages is not None or not kernels_of(cache.keys).compiled:
        return TorchDecodeStep(decoder, bank, cache)
    # Only a CPU needs numba, so only there it is imported.
    compiled = importlib.import_module("redqueen.engine.sampling.numba_decode_step")
    return compiled.NumbaDecodeStep(decoder, bank, cache)


class TorchDecodeStep:
    """Computes a step with torch's operations, on any device."""

    def __init__(self, decoder: Decoder, bank: AdapterBank, cache: KVCache) -> None:
        self.decoder = decoder
        self.bank = bank
        self.cache = cache
        self.products = bank.decoding_products(len(cache.length_R))
        self.recordable = self.products.recordable
        self.rows = 0

    def assign_rows(self, slots: Sequence[int]) -> None:
        self.rows = len(slots)
        self.products.assign(slots)

    def __call__(self, token_R: Tensor) -> Tensor:
        decoder = self.decoder
        attention = cached_attention(self.cache, len(token_R), decoder.heads // decoder.kv_heads)
        adapters = self.bank.decoding(self.products, self.rows)
        hidden_RH = decoder.hidden(token_R, attention.at_R, attention, adapters)
        self.cache.advance(len(token_R))
        return hidden_RH
