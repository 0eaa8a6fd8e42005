"""The Triton kernels of `low_rank.py` and `cached_heads.py`. Only these import this file, where triton is there.

Shape suffixes as there.
"""

# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false, reportInvalidTypeForm=false
# pyright: reportMissingParameterType=false, reportIndexIssue=false, reportAttributeAccessIssue=false
# Where triton is installed: its stubs know neither that its launcher compiles numbers in, nor what its helpers return.
# pyright: reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from redqueen.engine.kernels.low_rank import COLUMNS, TILE, Tiles

# Numbers of A that a program has in shared memory at a time; Triton also loads the next ones ahead. With so many, every
# rank fits into the 99 KB that each GPU from Ampere on gives a program.
_NUMBERS = 16384
# Inputs that a program multiplies at a time, at most, and ranks.
_INPUTS = 128
_RANKS = 128


def inner(x_NI: Tensor, a_SKI: Tensor, tiles: Tiles, rank: int, out_PNK: Tensor) -> None:
    """Writes x A to `out`, in parts."""
    count = len(out_PNK)
    _, width, fan_in = a_SKI.shape
    inner_kernel[(len(tiles.slot_T), width // rank, count)](
        x_NI,
        a_SKI,
        out_PNK,
        tiles.slot_T,
        tiles.row_TM,
        len(x_NI),
        fan_in,
        width,
        rank,
        **inner_constants(rank, count),
    )


def add(
    y_NO: Tensor, inner_PNK: Tensor, b: Tensor, tiles: Tiles, blocks_C5: Tensor, rank: int, *, aligned: bool
) -> None:
    """Adds (x A) B to y. `aligned` says that all numbers of the blocks but the first are multiples of 16."""
    count, rows, width = inner_PNK.shape
    add_kernel[(len(tiles.slot_T), len(blocks_C5))](
        y_NO,
        inner_PNK,
        b,
        tiles.slot_T,
        tiles.row_TM,
        blocks_C5,
        rows,
        width,
        rank,
        y_NO.stride(0),
        **add_constants(rank, count, aligned=aligned),
    )


def inner_constants(rank: int, parts: int) -> dict[str, Any]:
    """Returns what the first kernel is compiled for."""
    padded = _padded(rank)
    return {"TILE": TILE, "RANK": padded, "INPUTS": max(16, min(_INPUTS, _NUMBERS // padded)), "PARTS": parts}


def add_constants(rank: int, parts: int, *, aligned: bool) -> dict[str, Any]:
    """Returns what the second kernel is compiled for."""
    ranks = min(_padded(rank), _RANKS)
    return {"TILE": TILE, "RANKS": ranks, "COLUMNS": COLUMNS, "PARTS": parts, "ALIGNED": aligned}


def _padded(rank: int) -> int:
    """Returns the rank as a kernel takes it: a power of two, and at least what a tensor core multiplies."""
    return max(16, triton.next_power_of_2(rank))


@triton.jit
def inner_kernel(
    x,
    a,
    out,
    slot_T,
    row_TM,
    rows,
    fan_in,
    width,
    rank,
    TILE: tl.constexpr,
    RANK: tl.constexpr,
    INPUTS: tl.constexpr,
    PARTS: tl.constexpr,
):
    """One part of x A of a tile's rows, for one projection."""
    tile = tl.program_id(0)
    projection = tl.program_id(1)
    part = tl.program_id(2)
    slot = tl.load(slot_T + tile).to(tl.int64)
    if slot < 0:
        return
    row = tl.load(row_TM + tile * TILE + tl.arange(0, TILE)).to(tl.int64)[:, None]
    r = tl.arange(0, RANK)
    column = projection * rank + r
    sums = tl.zeros((TILE, RANK), tl.float32)
    for start in range(part * INPUTS, fan_in, PARTS * INPUTS):
        i = start + tl.arange(0, INPUTS)
        x_MI = tl.load(x + row * fan_in + i[None], mask=(row >= 0) & (i < fan_in)[None], other=0.0)
        a_IR = tl.load(
            a + (slot * width + column[None]) * fan_in + i[:, None],
            mask=(r < rank)[None] & (i < fan_in)[:, None],
            other=0.0,
        )
        sums = tl.dot(x_MI, a_IR, sums, input_precision="ieee")
    tl.store(out + (part * rows + row) * width + column[None], sums, mask=(row >= 0) & (r < rank)[None])


@triton.jit
def add_kernel(
    y,
    inner,
    b,
    slot_T,
    row_TM,
    blocks_C5,
    rows,
    width,
    rank,
    stride,
    TILE: tl.constexpr,
    RANKS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """Adds (x A) B to one block of columns of a tile's rows."""
    tile = tl.program_id(0)
    block = tl.program_id(1)
    slot = tl.load(slot_T + tile).to(tl.int64)
    if slot < 0:
        return
    row = tl.load(row_TM + tile * TILE + tl.arange(0, TILE)).to(tl.int64)[:, None]
    at = tl.load(blocks_C5 + block * 5)
    start = tl.load(blocks_C5 + block * 5 + 1)
    outputs = tl.load(blocks_C5 + block * 5 + 2)
    column = tl.load(blocks_C5 + block * 5 + 3)
    first = tl.load(blocks_C5 + block * 5 + 4)
    if ALIGNED:
        # Nothing is known about numbers in memory. With this, B and y are read and written 16 bytes at a time.
        start = tl.multiple_of(start, 16)
        outputs = tl.multiple_of(outputs, 16)
        column = tl.multiple_of(column, 16)
        first = tl.multiple_of(first, 16)
    o = first + tl.arange(0, COLUMNS)[None]
    pointers = y + row * stride + column + o
    has_y = (row >= 0) & (o < outputs)
    total = tl.load(pointers, mask=has_y, other=0.0).to(tl.float32)
    for start_r in range(0, rank, RANKS):
        r = start_r + tl.arange(0, RANKS)
        has_inner = (row >= 0) & (r < rank)[None]
        inner_MR = tl.zeros((TILE, RANKS), tl.float32)
        for part in range(PARTS):
            inner_MR += tl.load(inner + (part * rows + row) * width + at + r[None], mask=has_inner, other=0.0)
        b_RO = tl.load(
            b + start + (slot * rank + r[:, None]) * outputs + o, mask=(r < rank)[:, None] & (o < outputs), other=0.0
        )
        # x A is rounded to the dtype of B, as tensor cores take it.
        total = tl.dot(inner_MR.to(b_RO.dtype), b_RO, total, input_precision="ieee")
    tl.store(pointers, total.to(y.dtype.element_ty), mask=has_y)


# The Triton kernel of `redqueen.engine.kernels.cached_heads`. Only that module imports this one, if triton is there.
#
# Shape suffixes as there; B heads of a program.

# Heads of a row that one program computes.
BLOCK = 8


def cached_heads(
    qkv_RHD: Tensor,
    cos_R1D: Tensor,
    sin_R1D: Tensor,
    norm_q: Tensor,
    norm_k: Tensor,
    eps: float,
    block_R: Tensor,
    at_R: Tensor,
    keys: Tensor,
    values: Tensor,
    out: Tensor,
) -> None:
    """Writes q to `out`, and k and v to the cache."""
    rows, heads, size = qkv_RHD.shape
    cached_heads_kernel[(rows, triton.cdiv(heads, BLOCK))](
        qkv_RHD,
        cos_R1D,
        sin_R1D,
        norm_q,
        norm_k,
        block_R,
        at_R,
        out,
        keys,
        values,
        eps,
        qkv_RHD.stride(0),
        cos_R1D.stride(0),
        keys.shape[2],
        QUERIES=out.shape[1],
        KV=keys.shape[1],
        SIZE=size,
        HALF=triton.next_power_of_2(size // 2),
        BLOCK=BLOCK,
        NORMS=len(norm_q) > 0,
    )


@triton.jit
def cached_heads_kernel(
    qkv,
    cos,
    sin,
    norm_q,
    norm_k,
    block_R,
    at_R,
    out,
    keys,
    values,
    eps,
    stride,
    turn,
    places,
    QUERIES: tl.constexpr,
    KV: tl.constexpr,
    SIZE: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    NORMS: tl.constexpr,
):
    """Some heads of one row, in the two halves that a rotation turns into each other."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[:, None]
    d = tl.arange(0, HALF)[None]
    half = SIZE // 2
    there = (head < QUERIES + 2 * KV) & (d < half)
    is_q = there & (head < QUERIES)
    is_k = there & (head >= QUERIES) & (head < QUERIES + KV)
    is_v = there & (head >= QUERIES + KV)
    dtype = out.dtype.element_ty
    pointers = qkv + row * stride + head * SIZE + d
    one_BD = tl.load(pointers, mask=there, other=0.0).to(tl.float32)
    two_BD = tl.load(pointers + half, mask=there, other=0.0).to(tl.float32)

    turned_one = one_BD
    turned_two = two_BD
    if NORMS:
        # As in transformers, the unit vector is rounded to the input's dtype before the weight multiplies it.
        squares_B1 = tl.sum(one_BD * one_BD, 1, keep_dims=True) + tl.sum(two_BD * two_BD, 1, keep_dims=True)
        scale_B1 = tl.rsqrt(squares_B1 / SIZE + eps)
        one_q = tl.load(norm_q + d + 0 * head, mask=is_q, other=0.0)
        two_q = tl.load(norm_q + half + d + 0 * head, mask=is_q, other=0.0)
        one_k = tl.load(norm_k + d + 0 * head, mask=is_k, other=0.0)
        two_k = tl.load(norm_k + half + d + 0 * head, mask=is_k, other=0.0)
        one_weight = tl.where(is_q, one_q, one_k).to(tl.float32)
        two_weight = tl.where(is_q, two_q, two_k).to(tl.float32)
        turned_one = ((one_BD * scale_B1).to(dtype).to(tl.float32) * one_weight).to(dtype).to(tl.float32)
        turned_two = ((two_BD * scale_B1).to(dtype).to(tl.float32) * two_weight).to(dtype).to(tl.float32)

    cos_one = tl.load(cos + row * turn + d, mask=d < half, other=0.0).to(tl.float32)
    cos_two = tl.load(cos + row * turn + half + d, mask=d < half, other=0.0).to(tl.float32)
    sin_one = tl.load(sin + row * turn + d, mask=d < half, other=0.0).to(tl.float32)
    sin_two = tl.load(sin + row * turn + half + d, mask=d < half, other=0.0).to(tl.float32)
    new_one = (turned_one * cos_one - turned_two * sin_one).to(dtype)
    new_two = (turned_two * cos_two + turned_one * sin_two).to(dtype)

    query = out + (row * QUERIES + head) * SIZE + d
    tl.store(query, new_one, mask=is_q)
    tl.store(query + half, new_two, mask=is_q)
    block = tl.load(block_R + row)
    at = tl.load(at_R + row)
    key = keys + ((block * KV + head - QUERIES) * places + at) * SIZE + d
    tl.store(key, new_one, mask=is_k)
    tl.store(key + half, new_two, mask=is_k)
    value = values + ((block * KV + head - QUERIES - KV) * places + at) * SIZE + d
    tl.store(value, one_BD.to(dtype), mask=is_v)
    tl.store(value + half, two_BD.to(dtype), mask=is_v)
