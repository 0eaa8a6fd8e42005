"""A CPU's stand-ins for what torch has for a GPU only: flash attention, and products of bf16 with a result in fp32.

`on_cpu` registers them, so that the same calls run on a CPU, and exactly: in fp32 or wider, without blocks. Shape
suffixes: Q queries and K keys of a sequence, H heads, D head size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

# torch forgets what a library registered when the library is gone.
_REGISTERED: list[torch.library.Library] = []


def _wide(*tensors: Tensor) -> list[Tensor]:
    """Returns the tensors in fp32, or as they are in float64."""
    return [tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in tensors]


def _sequences(
    query_ends: Tensor, key_ends: Tensor, used: Tensor | None = None
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yields the rows of the queries and keys of each sequence, and which keys a query does not see [Q, K]."""
    queries = query_ends.tolist()
    keys = key_ends.tolist()
    for i in range(len(queries) - 1):
        end = keys[i + 1] if used is None else keys[i] + int(used[i])
        count = queries[i + 1] - queries[i]
        seen = end - keys[i]
        yield (
            slice(queries[i], queries[i + 1]),
            slice(keys[i], end),
            torch.ones(count, seen).triu(1 + seen - count).bool(),
        )


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_ends: Tensor,
    key_ends: Tensor,
    most_queries: int,
    most_keys: int,
    dropout: float,
    causal: bool,
    debug: bool,
    *,
    scale: float | None = None,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, ...]:
    assert dropout == 0
    assert not debug
    if block_table is not None:
        # The pages of each sequence are laid out one after the other.
        k, v = (pages[block_table.long()].flatten(0, 2) for pages in (k, v))
    assert most_queries == int(query_ends.diff().max())
    assert most_keys == int(key_ends.diff().max())
    factor = q.shape[2] ** -0.5 if scale is None else scale
    group = q.shape[1] // k.shape[1]
    wide_q, wide_k, wide_v = _wide(q, k, v)
    out = torch.zeros_like(wide_q)
    logsumexp = wide_q.new_zeros(q.shape[1], len(q))
    for rows, seen, late in _sequences(query_ends, key_ends, seqused_k):
        keys, values = (x[seen].repeat_interleave(group, 1) for x in (wide_k, wide_v))
        scores_HQK = factor * torch.einsum("qhd,khd->hqk", wide_q[rows], keys)
        if causal:
            scores_HQK = scores_HQK.masked_fill(late, float("-inf"))
        logsumexp[:, rows] = scores_HQK.logsumexp(-1)
        out[rows] = torch.einsum("hqk,khd->qhd", scores_HQK.softmax(-1), values)
    nothing = torch.empty(0)
    return out.to(q.dtype), logsumexp, nothing, nothing, nothing


def _backward(
    dy: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    query_ends: Tensor,
    key_ends: Tensor,
    most_queries: int,
    most_keys: int,
    dropout: float,
    causal: bool,
    random: Tensor,
    unused: Tensor,
    *,
    scale: float | None = None,
    **_: Any,
) -> tuple[Tensor, ...]:
    del most_queries, most_keys, random, unused
    assert dropout == 0
    factor = q.shape[2] ** -0.5 if scale is None else scale
    kv_heads = k.shape[1]
    group = q.shape[1] // kv_heads
    wide_dy, wide_q, wide_k, wide_v, wide_out = _wide(dy, q, k, v, out)
    dq, dk, dv = (torch.zeros_like(x) for x in (wide_q, wide_k, wide_v))
    for rows, seen, late in _sequences(query_ends, key_ends):
        keys, values = (x[seen].repeat_interleave(group, 1) for x in (wide_k, wide_v))
        scores_HQK = factor * torch.einsum("qhd,khd->hqk", wide_q[rows], keys)
        if causal:
            scores_HQK = scores_HQK.masked_fill(late, float("-inf"))
        weights_HQK = (scores_HQK - logsumexp[:, rows, None]).exp()
        d_weights_HQK = torch.einsum("qhd,khd->hqk", wide_dy[rows], values)
        along_HQ1 = (wide_dy[rows] * wide_out[rows]).sum(-1).T[..., None]
        d_scores_HQK = factor * weights_HQK * (d_weights_HQK - along_HQ1)
        dq[rows] = torch.einsum("hqk,khd->qhd", d_scores_HQK, keys)
        d_keys = torch.einsum("hqk,qhd->khd", d_scores_HQK, wide_q[rows])
        d_values = torch.einsum("hqk,qhd->khd", weights_HQK, wide_dy[rows])
        # The query heads of one kv head all add to its gradient.
        dk[seen] += d_keys.unflatten(1, (kv_heads, group)).sum(2)
        dv[seen] += d_values.unflatten(1, (kv_heads, group)).sum(2)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def _addmm(
    self: Tensor,
    left: Tensor,
    right: Tensor,
    out_dtype: torch.dtype,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: Tensor,
) -> Tensor:
    return out.copy_(torch.addmm(self.to(out_dtype), left.to(out_dtype), right.to(out_dtype), beta=beta, alpha=alpha))


def _mm(left: Tensor, right: Tensor, out_dtype: torch.dtype, *, out: Tensor) -> Tensor:
    return out.copy_(left.to(out_dtype) @ right.to(out_dtype))


def on_cpu() -> None:
    """Registers the stand-ins, once in a process."""
    if not _REGISTERED:
        library = torch.library.Library("aten", "IMPL")
        library.impl("_flash_attention_forward", _forward, "CPU")
        library.impl("_flash_attention_backward", _backward, "CPU")
        library.impl("addmm.dtype_out", _addmm, "CPU")
        library.impl("mm.dtype_out", _mm, "CPU")
        _REGISTERED.append(library)
