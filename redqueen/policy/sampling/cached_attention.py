"""Attention of one new token of each row over the row's tokens in the KV cache, itself included.

Shape suffixes: R rows, T tokens of a row, K kv heads, G query heads of each, D head size, M = R x K.
"""

from __future__ import annotations

import torch
from torch import Tensor

from redqueen.policy.kernels import dispatch
from redqueen.policy.kernels.flash import takes_heads_of
from redqueen.policy.sampling.kv_cache import KVCache


class CachedAttention:
    """Writes the newest token's keys and values behind each row's tokens, and attends to all of them.

    On a GPU nothing here depends on a number that only the device knows, so the work can be recorded and repeated.
    """

    def __init__(self, cache: KVCache, rows: int, group: int) -> None:
        """`group` is the number of query heads of each kv head."""
        self.cache = cache
        self.rows = rows
        self.group = group
        heads = cache.keys.shape[2]
        self.at_R = cache.length_R[:rows]
        at_M = self.at_R[:, None].expand(-1, heads).reshape(-1)
        device = at_M.device
        self.used_M = (at_M + 1).int()
        # Where the token goes among the places of all rows and heads.
        self.place_M = torch.arange(rows * heads, device=device) * cache.room + at_M
        self.width = cache.room
        if not dispatch.on_gpu(device):
            # A CPU can read the longest length without waiting, and need not read what lies behind it.
            self.width = int(self.used_M.max())
        self.mix = _Flash(self.used_M, group, cache.room) if _has_flash(cache.keys) else _Plain(self.used_M, self.width)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        size = q.shape[-1]
        keys = self.cache.keys[layer, : self.rows]
        values = self.cache.values[layer, : self.rows]
        keys.view(-1, size).index_copy_(0, self.place_M, k.reshape(-1, size))
        values.view(-1, size).index_copy_(0, self.place_M, v.reshape(-1, size))
        # Query heads that share a kv head are the tokens of one short sequence, so keys and values are not repeated.
        q = q.reshape(-1, self.group, size)
        mixed = self.mix(q, keys.flatten(0, 1)[:, : self.width], values.flatten(0, 1)[:, : self.width])
        return mixed.view(self.rows, -1, size)


def _has_flash(keys: Tensor) -> bool:
    """Returns whether flash attention takes such keys."""
    gpu = keys.device.type in ("cuda", "meta")
    return gpu and dispatch.flash_supports(keys) and takes_heads_of(keys.shape[-1])


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
