"""Attention of one new token of each row over the row's tokens in the KV cache, itself included.

Shape suffixes: R rows, T tokens of a row, K kv heads, G query heads of each, D head size, M = R x K.
"""

from __future__ import annotations

import torch
from torch import Tensor

from redqueen.policy.kernels import dispatch
from redqueen.policy.kernels.cached_heads import cached_heads
from redqueen.policy.kernels.compiler import can_compile
from redqueen.policy.kernels.dispatch import Rotation
from redqueen.policy.kernels.flash import takes_heads_of
from redqueen.policy.sampling.kv_cache import KVCache


def cached_attention(cache: KVCache, rows: int, group: int) -> WrittenApart | WrittenAtOnce:
    """Returns the attention of a step over the first rows; `group` is the number of query heads of each kv head."""
    flash = _has_flash(cache.keys)
    # Where nothing can be compiled a GPU writes to the cache by torch's operations; other devices need no compiler.
    if flash and (cache.keys.device.type != "cuda" or can_compile()):
        return WrittenAtOnce(cache, rows, group, flash=flash)
    return WrittenApart(cache, rows, group, flash=flash)


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
        self.at_M = self.at_R[:, None].expand(-1, cache.keys.shape[2]).reshape(-1)
        used_M = (self.at_M + 1).int()
        self.width = cache.room
        if not dispatch.on_gpu(used_M.device):
            # A CPU can read the longest length without waiting, and need not read what lies behind it.
            self.width = int(used_M.max())
        self.mix = _Flash(used_M, group, cache.room) if flash else _Plain(used_M, self.width)

    def _mixed(self, layer: int, q: Tensor) -> Tensor:
        """Returns the mixed values [R, heads, D] for q [R, heads, D]."""
        size = q.shape[-1]
        keys = self.cache.keys[layer, : self.rows].flatten(0, 1)
        values = self.cache.values[layer, : self.rows].flatten(0, 1)
        # Query heads that share a kv head are the tokens of one short sequence, so keys and values are not repeated.
        q = q.reshape(-1, self.group, size)
        return self.mix(q, keys[:, : self.width], values[:, : self.width]).view(self.rows, -1, size)


class WrittenApart(_Cached):
    """An `Attention` that writes keys and values by operations of their own."""

    def __init__(self, cache: KVCache, rows: int, group: int, *, flash: bool) -> None:
        super().__init__(cache, rows, group, flash=flash)
        # Where the token goes among the places of all rows and heads.
        self.place_M = torch.arange(len(self.at_M), device=self.at_M.device) * cache.room + self.at_M

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        size = q.shape[-1]
        for cached, new in ((self.cache.keys, k), (self.cache.values, v)):
            cached[layer, : self.rows].view(-1, size).index_copy_(0, self.place_M, new.reshape(-1, size))
        return self._mixed(layer, q)


class WrittenAtOnce(_Cached):
    """An `AttentionOfHeads`: one kernel norms and rotates the heads and writes keys and values."""

    def of_heads(
        self, layer: int, qkv_NHD: Tensor, norm_q: Tensor | None, norm_k: Tensor | None, eps: float, rotation: Rotation
    ) -> Tensor:
        absent = qkv_NHD[0, 0, :0]
        q = cached_heads(
            qkv_NHD,
            *rotation,
            absent if norm_q is None else norm_q,
            absent if norm_k is None else norm_k,
            eps,
            self.at_R,
            self.cache.keys[layer, : self.rows],
            self.cache.values[layer, : self.rows],
        )
        return self._mixed(layer, q)


def _has_flash(keys: Tensor) -> bool:
    """Returns whether flash attention takes such keys."""
    return dispatch.on_gpu(keys.device) and dispatch.flash_supports(keys) and takes_heads_of(keys.shape[-1])


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

    Every pair of a row and a kv head is a sequence: the memory of the cache is read as it lies, in one launch.
    """

    def __init__(self, used_M: Tensor, group: int, room: int) -> None:
        self.used_M = used_M
        self.group = group
        self.room = room
        first_M = torch.arange(len(used_M) + 1, dtype=torch.int32, device=used_M.device)
        self.first_query_M = first_M * group
        self.first_key_M = first_M * room

    def __call__(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        # The public function for sequences of different lengths (`torch.nn.attention.varlen`) knows `seqused_k` only
        # since torch 2.12; this operator, which it calls, had it before.
        return torch.ops.aten._flash_attention_forward(
            q.flatten(0, 1)[:, None],
            keys.flatten(0, 1)[:, None],
            values.flatten(0, 1)[:, None],
            self.first_query_M,
            self.first_key_M,
            self.group,
            self.room,
            0.0,
            False,
            False,
            scale=q.shape[2] ** -0.5,
            seqused_k=self.used_M,
        )[0].view(q.shape)
