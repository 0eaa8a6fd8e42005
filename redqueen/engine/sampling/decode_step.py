"""One decode step computes the hidden state of one token of each row and appends its keys and values to the cache.

Shape suffixes: R rows, H hidden size.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor

from redqueen.engine.kernels import Rotation, dispatch
from redqueen.engine.kernels.cached_heads import cached_heads
from redqueen.engine.kernels.dispatch import can_compile, kernels_of
from redqueen.engine.kernels.flash import flash_takes_pages
from redqueen.engine.kernels.torch_ops import HeadNorms
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.decoder import Decoder
from redqueen.engine.model.forward import Forward
from redqueen.engine.model.hosted import HostedDecoder
from redqueen.engine.sampling.hosted_decoding import HostedDecoding
from redqueen.engine.sampling.kv_cache import KVCache, Pages, Prefill, PrefillEntry, batch_pages, has_flash, pages_suit

# Attention of one new token of each row over the row's tokens in the KV cache, itself included.
#
# Shape suffixes: R rows, T tokens of a row, B blocks of the cache, P places of a block, C pages of a row, K kv heads, D
# head size, M = R x K.


def cached_attention(cache: KVCache, rows: int, group: int) -> WrittenApart | WrittenAtOnce:
    """Returns the attention of a step over the first rows; `group` is the number of query heads of each kv head."""
    flash = reads_by_flash(cache)
    # Where nothing can be compiled a GPU writes to the cache by torch's operations; other devices need no compiler.
    if flash and (cache.keys.device.type != "cuda" or can_compile()):
        return WrittenAtOnce(cache, rows, group, flash=flash)
    return WrittenApart(cache, rows, group, flash=flash)


def reads_by_flash(cache: KVCache) -> bool:
    """Returns whether flash attention reads this cache. Before torch 2.12 it reads no pages."""
    return has_flash(cache.keys) and (cache.pages is None or flash_takes_pages())


class _Cached:
    """Attends to all tokens of the rows, the newest ones included.

    On a GPU nothing here depends on a number that only the device knows, so the work can be recorded and repeated.
    """

    def __init__(self, cache: KVCache, rows: int, group: int, *, flash: bool) -> None:
        """`flash` says whether flash attention takes the cache's tensors."""
        self.cache = cache
        self.rows = rows
        self.group = group
        self.at_R = cache.length_R[:rows]
        self.block_R, self.place_R = cache.places(rows)
        kv_heads = cache.keys.shape[2]
        used_M = (self.at_R[:, None].expand(-1, kv_heads).reshape(-1) + 1).int()
        self.table_MC = None if cache.table_RC is None else _by_head(cache.table_RC[:rows], kv_heads)
        self.width = cache.room
        if not dispatch.on_gpu(used_M.device):
            # A CPU can read the longest length without waiting, and need not read what lies behind it.
            self.width = int(used_M.max())
        if flash:
            room = cache.room if self.table_MC is None else self.table_MC.shape[1] * cache.keys.shape[3]
            self.mix = _Flash(used_M, group, room, self.table_MC)
        else:
            self.mix = _Plain(used_M, self.width)
        self.flash = flash

    def _mixed(self, layer: int, q: Tensor) -> Tensor:
        """Returns the mixed values [R, heads, D] for q [R, heads, D]."""
        keys = self._seen(self.cache.keys[layer])
        values = self._seen(self.cache.values[layer])
        # Query heads that share a kv head are the tokens of one short sequence, so keys and values are not repeated.
        groups = q.reshape(-1, self.group, q.shape[-1])
        return self.mix(groups, keys, values).view(self.rows, -1, q.shape[-1])

    def _seen(self, blocks: Tensor) -> Tensor:
        """Returns what the rows see of a layer's keys or values [B, K, P, D], as `mix` takes it."""
        if self.table_MC is None:
            return blocks[: self.rows].flatten(0, 1)[:, : self.width]
        pages = blocks.flatten(0, 1)
        if self.flash:
            return pages
        # Without flash attention the pages of each row are laid out one after the other.
        return pages[self.table_MC.long()].flatten(1, 2)[:, : self.width]


def _by_head(table_RC: Tensor, kv_heads: int) -> Tensor:
    """Returns the pages of each row and kv head, counted among the pages of single heads."""
    head_K1 = torch.arange(kv_heads, dtype=torch.int32, device=table_RC.device)[:, None]
    return (table_RC[:, None] * kv_heads + head_K1).flatten(0, 1)


class WrittenApart(_Cached):
    """An `Attention` that writes keys and values by operations of their own."""

    def __init__(self, cache: KVCache, rows: int, group: int, *, flash: bool) -> None:
        super().__init__(cache, rows, group, flash=flash)
        # Where the token goes among the places of all blocks and heads.
        _, _, kv_heads, places, _ = cache.keys.shape
        head_K = torch.arange(kv_heads, device=self.at_R.device)
        first_RK = self.block_R[:, None] * kv_heads + head_K
        self.place_M = (first_RK * places + self.place_R[:, None]).flatten()

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        size = q.shape[-1]
        for cached, new in ((self.cache.keys, k), (self.cache.values, v)):
            cached[layer].view(-1, size).index_copy_(0, self.place_M, new.reshape(-1, size))
        return self._mixed(layer, q)


class WrittenAtOnce(_Cached):
    """An `AttentionOfHeads`: one kernel norms and rotates the heads and writes keys and values."""

    def of_heads(self, layer: int, qkv_NHD: Tensor, norms: HeadNorms | None, rotation: Rotation) -> Tensor:
        absent = qkv_NHD[0, 0, :0]
        q = cached_heads(
            qkv_NHD,
            *rotation,
            *(norms or HeadNorms(absent, absent, 0.0)),
            self.block_R,
            self.place_R,
            self.cache.keys[layer],
            self.cache.values[layer],
        )
        return self._mixed(layer, q)


class _Plain:
    """Computes the attention by plain products, on any device and in any dtype."""

    def __init__(self, used_M: Tensor, width: int) -> None:
        # One mask serves all layers.
        self.late_MT1 = (torch.arange(width, device=used_M.device) >= used_M[:, None])[..., None]

    def __call__(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        # With beta 0 the first argument is not read: this is a scaled product, rounded once.
        scores = torch.baddbmm(q[:1, :1, :1], q, keys.mT, beta=0, alpha=q.shape[2] ** -0.5)
        # Memory behind a row's end is not initialised and may hold NaN, which neither a mask nor a weight of 0 hides.
        weights = scores.masked_fill_(self.late_MT1.mT, float("-inf")).softmax(-1)
        return torch.bmm(weights, values.masked_fill(self.late_MT1, 0))


class _Flash:
    """Computes the attention by torch's flash attention, which reads of each sequence only the tokens that it has.

    Every pair of a row and a kv head is a sequence: the memory of the cache is read as it lies, in one launch. With
    pages, a sequence has a list of pages of single heads.
    """

    def __init__(self, used_M: Tensor, group: int, room: int, table_MC: Tensor | None) -> None:
        """A sequence has room for `room` tokens."""
        self.used_M = used_M
        self.group = group
        self.room = room
        # Older versions of the operator know no pages, and are not given any.
        self.pages = {} if table_MC is None else {"block_table": table_MC}
        first_M = torch.arange(len(used_M) + 1, dtype=torch.int32, device=used_M.device)
        self.first_query_M = first_M * group
        # The operator asks for these too where pages say where the keys are.
        self.first_key_M = first_M * room

    def __call__(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        if not self.pages:
            keys = keys.flatten(0, 1)
            values = values.flatten(0, 1)
        # The public function for sequences of different lengths (`torch.nn.attention.varlen`) knows `seqused_k` only
        # since torch 2.12; this operator, which it calls, had it before.
        return torch.ops.aten._flash_attention_forward(
            q.flatten(0, 1)[:, None],
            keys.unsqueeze(-2),
            values.unsqueeze(-2),
            self.first_query_M,
            self.first_key_M,
            self.group,
            self.room,
            0.0,
            False,
            False,
            scale=q.shape[2] ** -0.5,
            seqused_k=self.used_M,
            **self.pages,
        )[0].view(q.shape)


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
