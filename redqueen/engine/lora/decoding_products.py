"""The low-rank products of decoding: rows in any order, a few for each member, forward only.

Shape suffixes: N rows, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from redqueen.engine.kernels import dispatch, low_rank
from redqueen.engine.kernels.compiler import can_compile
from redqueen.engine.kernels.transfer import to_device
from redqueen.engine.lora.stacked_factors import LowRankProducts, StackedFactors
from redqueen.engine.lora.training_products import contiguous_runs


class DecodingProducts(LowRankProducts, Protocol):
    """Low-rank products whose rows change their members from time to time."""

    recordable: bool
    """Whether the products of as many rows are always the same work on the same memory."""

    def assign(self, slots: Sequence[int]) -> None:
        """Sets the member of each row, until the next call: row i belongs to `slots[i]`."""
        ...


def decoding_products(
    factors: Iterable[StackedFactors], slots: int, rows: int, device: torch.device
) -> DecodingProducts:
    """Returns the products of at most `rows` rows with the factors of a bank that has `slots` slots."""
    # Where nothing can be compiled a GPU takes torch's products; what has no kernels to compile needs no compiler.
    if dispatch.on_gpu(device) and (device.type != "cuda" or can_compile()):
        return TiledProducts(factors, slots, rows, device)
    return PaddedBmm(device)


class TiledProducts:
    """Two launches for a site, which read and write the rows of all members where they are."""

    recordable = True

    def __init__(self, factors: Iterable[StackedFactors], slots: int, rows: int, device: torch.device) -> None:
        self.slots = slots
        # Everything that a recorded launch reads is in memory that stays where it is.
        self.table = torch.full((low_rank.most_tiles(rows, slots), 1 + low_rank.TILE), -1, dtype=torch.int32)
        self.table = self.table.to(device)
        self.slot_T = self.table[:, 0].clone()
        self.row_TM = self.table[:, 1:].clone()
        self.blocks: dict[tuple[int, ...], tuple[Tensor, bool]] = {}
        """The blocks of columns by where projections lie, and whether they are aligned."""
        for stacked in factors:
            key = _columns(stacked)
            if key not in self.blocks:
                columns = [projection.out for projection in stacked.projections]
                blocks_C5 = low_rank.column_blocks(slots, stacked.rank, columns)
                self.blocks[key] = blocks_C5.to(device), low_rank.are_aligned(blocks_C5)

    def assign(self, slots: Sequence[int]) -> None:
        table = to_device(low_rank.tile_rows(slots, len(self.slot_T)), self.slot_T.device)
        self.slot_T.copy_(table[:, 0])
        self.row_TM.copy_(table[:, 1:])

    def add(self, factors: StackedFactors, x_NI: Tensor, y_NO: Tensor) -> None:
        tiles = low_rank.most_tiles(len(x_NI), self.slots)
        slot_T = self.slot_T[:tiles]
        row_TM = self.row_TM[:tiles]
        inner_PNK = low_rank.inner(x_NI, factors.a_copy, slot_T, row_TM, factors.rank)
        blocks_C5, aligned = self.blocks[_columns(factors)]
        low_rank.add(y_NO, inner_PNK, factors.b_copy, slot_T, row_TM, blocks_C5, factors.rank, aligned)


def _columns(factors: StackedFactors) -> tuple[int, ...]:
    """Returns where the site's projections begin and end in y; sites of other layers have the same."""
    bounds: list[int] = []
    for projection in factors.projections:
        bounds += [projection.out.start, projection.out.stop]
    return tuple(bounds)


class PaddedBmm:
    """Pads each member's rows to the longest group and computes two batched products for all members.

    In decoding a member has a few rows only. One launch for all members is then faster than one per member.
    """

    recordable = False

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def assign(self, slots: Sequence[int]) -> None:
        present = sorted(set(slots))
        rows_by_slot: dict[int, list[int]] = {slot: [] for slot in present}
        for row, slot in enumerate(slots):
            rows_by_slot[slot].append(row)
        self.width = max(len(rows) for rows in rows_by_slot.values())
        # One run of slots is a view of the bank; any other choice is a copy.
        runs = contiguous_runs(present)
        self.slots: Any = runs[0] if len(runs) == 1 else to_device(torch.tensor(present), self.device)
        # A short group is padded with its own first row, whose extra results are ignored.
        padded: list[int] = []
        for rows in rows_by_slot.values():
            padded += rows + rows[:1] * (self.width - len(rows))
        # A batch that is sorted and needs no padding is read and written in place.
        self.plain = padded == list(range(len(slots)))
        self.gather = to_device(torch.tensor(padded), self.device)
        # A padded row occurs more than once. In reverse order its first place is entered last and wins.
        places = {row: place for place, row in reversed(list(enumerate(padded)))}
        self.place = to_device(torch.tensor([places[row] for row in range(len(slots))]), self.device)

    def add(self, factors: StackedFactors, x_NI: Tensor, y_NO: Tensor) -> None:
        a = factors.a_copy[self.slots].mT
        rows_NI = x_NI if self.plain else x_NI[self.gather]
        x = rows_NI.view(len(a), self.width, -1)
        inner = torch.bmm(x, a)
        for projection in factors.projections:
            x_a = inner[..., projection.inner]
            b = projection.copy[self.slots]
            if self.plain:
                y_NO.view(len(a), self.width, -1)[..., projection.out].baddbmm_(x_a, b)
            else:
                y_NO[:, projection.out].add_(torch.bmm(x_a, b).flatten(0, 1)[self.place])
