"""The low-rank products of decoding: rows in any order, a few for each member, forward only.

Shape suffixes: N rows, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from redqueen.policy.lora.stacked_factors import StackedFactors
from redqueen.policy.lora.training_products import contiguous_runs


class PaddedBmm:
    """Pads each member's rows to the longest group and computes two batched products for all members.

    In decoding a member has a few rows only. One launch for all members is then faster than one per member.
    """

    def __init__(self, slots: Sequence[int], device: torch.device) -> None:
        present = sorted(set(slots))
        rows_by_slot: dict[int, list[int]] = {slot: [] for slot in present}
        for row, slot in enumerate(slots):
            rows_by_slot[slot].append(row)
        self.width = max(len(rows) for rows in rows_by_slot.values())
        # One run of slots is a view of the bank; any other choice is a copy.
        runs = contiguous_runs(present)
        self.slots: Any = runs[0] if len(runs) == 1 else torch.tensor(present, device=device)
        # A short group is padded with its own first row, whose extra results are ignored.
        padded: list[int] = []
        for rows in rows_by_slot.values():
            padded += rows + rows[:1] * (self.width - len(rows))
        # A batch that is sorted and needs no padding is read and written in place.
        self.plain = padded == list(range(len(slots)))
        self.gather = torch.tensor(padded, device=device)
        # A padded row occurs more than once. In reverse order its first place is entered last and wins.
        places = {row: place for place, row in reversed(list(enumerate(padded)))}
        self.place = torch.tensor([places[row] for row in range(len(slots))], device=device)

    def add(self, factors: StackedFactors, x_NI: Tensor, y_NO: Tensor) -> Tensor:
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
                y_NO[:, projection.out] += torch.bmm(x_a, b).flatten(0, 1)[self.place]
        return inner
