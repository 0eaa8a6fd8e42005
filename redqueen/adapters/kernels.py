"""The low-rank products of training: rows sorted by member, forward and backward.

Shape suffixes: N rows, I inputs, O outputs, K = parts x rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from redqueen.adapters.linear import Stacked

# (slot, first row, end row)
Group = tuple[int, int, int]


def group_rows(slots: Sequence[int], lengths: Sequence[int] | None = None) -> tuple[Group, ...]:
    """Runs of equal slots: `[2, 2, 0]` gives `((2, 0, 2), (0, 2, 3))`; item i counts `lengths[i]` rows (default 1).

    Raises ValueError if a slot comes twice: the batch has to be sorted by slot.
    """
    groups: list[Group] = []
    end = 0
    for slot, length in zip(slots, lengths or [1] * len(slots), strict=True):
        start, end = end, end + length
        if groups and groups[-1][0] == slot:
            start = groups.pop()[1]
        if end > start:
            groups.append((slot, start, end))
    if len({slot for slot, _, _ in groups}) != len(groups):
        raise ValueError("rows of one member must be neighbours: sort the batch by slot")
    return tuple(groups)


class Loop:
    """Slices of a batch that is sorted by slot, one product after the other: best where groups are large."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = tuple(groups)

    def add(self, factors: Stacked, x_NI: Tensor, y_NO: Tensor) -> Tensor:
        inner_NK = x_NI.new_empty(len(x_NI), factors.width)
        for slot, start, end in self.groups:
            own, inner, y = factors.own[slot], inner_NK[start:end], y_NO[start:end]
            torch.mm(x_NI[start:end], own.a_copy, out=inner)
            for block in own.blocks:
                y[:, block.out].addmm_(inner[:, block.inner], block.b_copy)
        return inner_NK

    def backward(
        self, factors: Stacked, x_NI: Tensor, inner_NK: Tensor, dy_NO: Tensor, dx_NI: Tensor, scales: Sequence[float]
    ) -> None:
        for slot, start, end in self.groups:
            own, inner, dy = factors.own[slot], inner_NK[start:end], dy_NO[start:end]
            d_inner = torch.empty_like(inner)
            for block in own.blocks:
                dy_part = dy[:, block.out]
                torch.mm(dy_part, block.b_copy.T, out=d_inner[:, block.inner])
                block.b_grad.add_(inner[:, block.inner].T @ dy_part, alpha=scales[slot])
            own.a_grad.add_(x_NI[start:end].T @ d_inner)
            dx_NI[start:end].addmm_(d_inner, own.a_copy.T)


class Grouped:
    """The same through torch's grouped matrix product: one launch for all members, for a GPU.

    That product takes `aligned` factors only, in bf16, fp16 or fp32.
    """

    def __init__(self, groups: Sequence[Group], device: torch.device) -> None:
        self.slots = [slot for slot, _, _ in groups]
        self.index = torch.tensor(self.slots, device=device)
        self.ends = torch.tensor([end for _, _, end in groups], device=device, dtype=torch.int32)

    def add(self, factors: Stacked, x_NI: Tensor, y_NO: Tensor) -> Tensor:
        inner_NK = F.grouped_mm(x_NI, factors.a_copy[self.index], offs=self.ends)
        for block, b in zip(factors.own[0].blocks, factors.b_copies, strict=True):
            y_NO[:, block.out] += F.grouped_mm(inner_NK[:, block.inner], b[self.index], offs=self.ends)
        return inner_NK

    def backward(
        self, factors: Stacked, x_NI: Tensor, inner_NK: Tensor, dy_NO: Tensor, dx_NI: Tensor, scales: Sequence[float]
    ) -> None:
        dy_NO = dy_NO.contiguous()  # the product refuses expanded gradients
        d_inner_NK = torch.empty_like(inner_NK)
        for j, block in enumerate(factors.own[0].blocks):
            dy = dy_NO[:, block.out]
            d_inner_NK[:, block.inner] = F.grouped_mm(dy, factors.b_copies[j][self.index].mT, offs=self.ends)
            db = F.grouped_mm(inner_NK[:, block.inner].T, dy, offs=self.ends)
            for i, slot in enumerate(self.slots):
                factors.own[slot].blocks[j].b_grad.add_(db[i], alpha=scales[slot])
        da = F.grouped_mm(x_NI.T, d_inner_NK, offs=self.ends)
        for i, slot in enumerate(self.slots):
            factors.own[slot].a_grad.add_(da[i])
        dx_NI += F.grouped_mm(d_inner_NK, factors.a_copy[self.index].mT, offs=self.ends)
