"""The low-rank products of decoding as two operators: x A, and y += (x A) B, for rows of many members in any order.

Rows are computed in tiles: up to 16 rows of one member, by their numbers. No row is copied to its place and none is
padded, and how much is launched depends on the number of rows only. On a GPU both are Triton kernels
(`redqueen.engine.kernels.triton_kernels`), after Punica's SGMV (Chen et al. 2023); elsewhere torch computes the same.

Shape suffixes: N rows, I inputs, O outputs, S slots, R rank, K = projections x rank, T tiles, M rows of a tile, P parts
of a sum, C blocks of columns.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

TILE = 16
"""Rows of a tile: the fewest that a tensor core multiplies at once."""
COLUMNS = 128
"""Columns of y that one program of the second kernel computes."""
# So many programs keep a large GPU busy. The sum over the inputs is split into parts until there are as many.
_PROGRAMS = 256
_MOST_PARTS = 16


@dataclass(frozen=True, slots=True)
class Tiles:
    """Which rows are computed together."""

    slot_T: Tensor
    """The slot of each tile's member, -1 for a tile without rows; int32."""
    row_TM: Tensor
    """The rows of each tile, -1 for a missing one; int32."""


def most_tiles(rows: int, slots: int) -> int:
    """Returns how many tiles `rows` rows of at most `slots` members can need."""
    return (rows + (TILE - 1) * min(rows, slots)) // TILE


def tile_rows(slots: Sequence[int], tiles: int) -> Tensor:
    """Returns the tiles of rows that belong to `slots` [tiles, 1 + 16]: a tile's slot, then its rows."""
    table = np.full((tiles, 1 + TILE), -1, np.int32)
    by_slot: dict[int, list[int]] = {}
    for row, slot in enumerate(slots):
        by_slot.setdefault(slot, []).append(row)
    tile = 0
    for slot, rows in sorted(by_slot.items()):
        for start in range(0, len(rows), TILE):
            rows_of_tile = rows[start : start + TILE]
            table[tile, 0] = slot
            table[tile, 1 : 1 + len(rows_of_tile)] = rows_of_tile
            tile += 1
    return torch.from_numpy(table)


def column_blocks(slots: int, rank: int, columns: Sequence[slice]) -> Tensor:
    """Returns the blocks of columns of a site [C, 5], in int64.

    A block is: the first column of its projection in x A, the first number of the projection in the flat B, the width
    of the projection, the first column of the projection in y, and the block's first column within the projection.
    `columns` are the projections' columns of y.
    """
    blocks: list[tuple[int, int, int, int, int]] = []
    start = 0
    for index, out in enumerate(columns):
        width = out.stop - out.start
        for first in range(0, width, COLUMNS):
            blocks.append((index * rank, start, width, out.start, first))
        start += slots * rank * width
    return torch.tensor(blocks)


def are_aligned(blocks_C5: Tensor) -> bool:
    """Returns whether columns begin and end at multiples of 16, so that a GPU can read and write 16 bytes at a time."""
    return not bool((blocks_C5[:, 1:] % 16).any())


def parts(tiles: int, projections: int) -> int:
    """Returns into how many parts the sum over the inputs is split."""
    wanted = max(1, min(_MOST_PARTS, _PROGRAMS // (tiles * projections)))
    return 1 << (wanted.bit_length() - 1)


@torch.library.custom_op("redqueen::low_rank_inner", mutates_args=(), device_types="cuda")
def inner(x_NI: Tensor, a_SKI: Tensor, slot_T: Tensor, row_TM: Tensor, rank: int) -> Tensor:
    """Returns x A in parts [P, N, K], whose sum it is, in fp32; rows without a tile are undefined."""
    out_PNK = _parts_of(x_NI, a_SKI, len(slot_T), rank)
    _triton().inner(x_NI, a_SKI, Tiles(slot_T, row_TM), rank, out_PNK)
    return out_PNK


def _parts_of(x_NI: Tensor, a_SKI: Tensor, tiles: int, rank: int) -> Tensor:
    """Returns memory for the parts of x A."""
    width = a_SKI.shape[1]
    return x_NI.new_empty(parts(tiles, width // rank), len(x_NI), width, dtype=torch.float32)


@inner.register_fake
def _shape_of_inner(x_NI: Tensor, a_SKI: Tensor, slot_T: Tensor, row_TM: Tensor, rank: int) -> Tensor:
    del row_TM
    return _parts_of(x_NI, a_SKI, len(slot_T), rank)


def _plain_inner(x_NI: Tensor, a_SKI: Tensor, slot_T: Tensor, row_TM: Tensor, rank: int) -> Tensor:
    out_PNK = _parts_of(x_NI, a_SKI, len(slot_T), rank).zero_()
    for slot, row_M in zip(slot_T.tolist(), row_TM.long(), strict=True):
        row_M = row_M[row_M >= 0]
        if slot >= 0:
            out_PNK[0, row_M] = x_NI[row_M].float() @ a_SKI[slot].T.float()
    return out_PNK


@torch.library.custom_op("redqueen::low_rank_add", mutates_args=("y_NO",), device_types="cuda")
def add(
    y_NO: Tensor,
    inner_PNK: Tensor,
    b: Tensor,
    slot_T: Tensor,
    row_TM: Tensor,
    blocks_C5: Tensor,
    rank: int,
    aligned: bool,
) -> None:
    """Adds (x A) B to y, for the flat B of all projections (`StackedFactors.b_copy`). `aligned` is of the blocks."""
    _triton().add(y_NO, inner_PNK, b, Tiles(slot_T, row_TM), blocks_C5, rank, aligned=aligned)


@add.register_fake
def _add_nothing(*_: object) -> None:
    return


def _plain_add(
    y_NO: Tensor,
    inner_PNK: Tensor,
    b: Tensor,
    slot_T: Tensor,
    row_TM: Tensor,
    blocks_C5: Tensor,
    rank: int,
    aligned: bool,
) -> None:
    del aligned
    # x A is rounded to the dtype of B, as a product of the two would take it.
    inner_NK = inner_PNK.sum(0).to(b.dtype)
    for slot, row_M in zip(slot_T.tolist(), row_TM.long(), strict=True):
        row_M = row_M[row_M >= 0]
        if slot < 0:
            continue
        for at, start, width, column, first in blocks_C5.tolist():
            end = min(first + COLUMNS, width)
            b_RO = b[start + slot * rank * width :][: rank * width].view(rank, width)[:, first:end]
            y_NO[row_M, column + first : column + end] += inner_NK[row_M, at : at + rank] @ b_RO


inner.register_kernel("cpu")(_plain_inner)
add.register_kernel("cpu")(_plain_add)


@functools.cache
def _triton() -> Any:
    """Returns the Triton kernels, which need triton."""
    return importlib.import_module("redqueen.engine.kernels.triton_kernels")
