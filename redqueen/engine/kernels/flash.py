"""Causal attention of many sequences of any lengths as one call of torch's flash attention, without padding.

FlashAttention-2 (Dao 2023), through the operators that torch's own `varlen_attn` calls: that takes grouped queries only
from torch 2.12 on. Shape suffixes: N rows, M keys of all sequences, D head size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from redqueen.engine.kernels.torch_ops import Ops


@dataclass(frozen=True, slots=True)
class Sequences:
    """Which rows of a batch are queries and keys of which sequence.

    Queries stand in the order of the rows, one sequence after the other. Keys are laid out anew, because several
    sequences can see the same rows. A sequence's last query sees its last key (a causal mask, lower right).
    """

    key_rows_M: Tensor | None
    """The row of each key, one sequence after the other; None if the keys stand in the order of the rows."""
    query_ends: Tensor
    """0 and the end of each sequence's queries, in int32."""
    key_ends: Tensor
    """0 and the end of each sequence's keys, in int32."""
    most_queries: int
    """The queries of the sequence with the most."""
    most_keys: int
    """The keys of the sequence with the most."""


def takes_heads_of(size: int) -> bool:
    """Returns whether flash attention takes heads of so many numbers."""
    return size % 8 == 0 and size <= 256


@functools.cache
def flash_takes_pages() -> bool:
    """Returns whether torch's flash attention reads keys and values in pages, as it does from torch 2.12 on."""
    schema = torch.ops.aten._flash_attention_forward.default._schema  # pyright: ignore[reportPrivateUsage]
    return any(argument.name == "block_table" for argument in schema.arguments)


Varlen = Callable[[Tensor, Tensor, Tensor, Sequences], Tensor]
"""Returns the mixed values [N, heads, D] for q [N, heads, D], k and v [N, kv heads, D]; differentiable in all three."""


class VarlenAttention(torch.autograd.Function):
    """The implementation of `Varlen`."""

    @staticmethod
    def forward(ctx: Any, ops: Ops, q: Tensor, k: Tensor, v: Tensor, sequences: Sequences) -> Tensor:
        ctx.rows = len(k)
        if sequences.key_rows_M is not None:
            k = k.index_select(0, sequences.key_rows_M)
            v = v.index_select(0, sequences.key_rows_M)
        out, logsumexp, random, unused, _ = torch.ops.aten._flash_attention_forward(
            q,
            k,
            v,
            sequences.query_ends,
            sequences.key_ends,
            sequences.most_queries,
            sequences.most_keys,
            0.0,
            True,
            False,
        )
        ctx.save_for_backward(q, k, v, out, logsumexp, random, unused)
        ctx.ops = ops
        ctx.sequences = sequences
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, logsumexp, random, unused = ctx.saved_tensors
        sequences: Sequences = ctx.sequences
        dq, dk, dv = torch.ops.aten._flash_attention_backward(
            grads[0],
            q,
            k,
            v,
            out,
            logsumexp,
            sequences.query_ends,
            sequences.key_ends,
            sequences.most_queries,
            sequences.most_keys,
            0.0,
            True,
            random,
            unused,
        )
        if sequences.key_rows_M is not None:
            # A prompt's row has a gradient from each of its continuations.
            dk = ctx.ops.sum_taken(dk, sequences.key_rows_M, ctx.rows)
            dv = ctx.ops.sum_taken(dv, sequences.key_rows_M, ctx.rows)
        return None, dq, dk, dv, None
