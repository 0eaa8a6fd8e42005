"""The Triton kernels of `redqueen.policy.kernels.low_rank`. Only that module imports this one, where triton is there.

Shape suffixes as there.
"""

# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false, reportInvalidTypeForm=false
# pyright: reportMissingParameterType=false, reportIndexIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from redqueen.policy.kernels.low_rank import COLUMNS, TILE, Tiles

# Inputs that a program multiplies at a time.
_INPUTS = 128


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
        TILE=TILE,
        RANK=_padded(rank),
        INPUTS=_INPUTS,
        PARTS=count,
    )


def add(y_NO: Tensor, inner_PNK: Tensor, b: Tensor, tiles: Tiles, blocks_C5: Tensor, rank: int) -> None:
    """Adds (x A) B to y."""
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
        TILE=TILE,
        RANK=_padded(rank),
        COLUMNS=COLUMNS,
        PARTS=count,
    )


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
    RANK: tl.constexpr,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
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
    o = tl.load(blocks_C5 + block * 5 + 4) + tl.arange(0, COLUMNS)[None]
    r = tl.arange(0, RANK)
    has_inner = (row >= 0) & (r < rank)[None]
    inner_MR = tl.zeros((TILE, RANK), tl.float32)
    for part in range(PARTS):
        inner_MR += tl.load(inner + (part * rows + row) * width + at + r[None], mask=has_inner, other=0.0)
    b_RO = tl.load(
        b + start + (slot * rank + r[:, None]) * outputs + o, mask=(r < rank)[:, None] & (o < outputs), other=0.0
    )
    place = y + row * stride + column + o
    has_y = (row >= 0) & (o < outputs)
    before = tl.load(place, mask=has_y, other=0.0).to(tl.float32)
    # x A is rounded to the dtype of B, as tensor cores take it.
    total = tl.dot(inner_MR.to(b_RO.dtype), b_RO, before, input_precision="ieee")
    tl.store(place, total.to(y.dtype.element_ty), mask=has_y)
