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
    """Pads each member's rows to the longest group and computes two batched products for all members."""

    def __init__(self, slots: Sequence[int], device: torch.device) -> None:
        present = sorted(set(slots))
        rows_by_slot = {slot: [row for row, owner in enumerate(slots) if owner == slot] for slot in present}
        self.width = max(len(rows) for rows in rows_by_slot.values())
        # One run of slots is a view of the bank; any other choice is a copy.
        runs = contiguous_runs(present)
        self.slots: Any = runs[0] if len(runs) == 1 else torch.tensor(present, device=device)
        # A short group is padded with its own first row, whose extra results are ignored.
        padded: list[int] = []
        for rows in rows_by_slot.values():
            padded += rows + rows[:1] * (self.width - len(rows))
        self.plain = padded == list(range(len(slots)))
        self.gather = torch.tensor(padded, device=device)
        places = {row: place for place, row in reversed(list(enumerate(padded)))}
        self.place = torch.tensor([places[row] for row in range(len(slots))], device=device)

    def add(self, factors: StackedFactors, x_NI: Tensor, y_NO: Tensor) -> Tensor:
        a = factors.a_copy[self.slots].mT
        x = (x_NI if self.plain else x_NI[self.gather]).view(len(a), self.width, -1)
        inner = torch.bmm(x, a)
        for projection in factors.projections:
            x_a, b = inner[..., projection.inner], projection.copy[self.slots]
            if self.plain:
                y_NO.view(len(a), self.width, -1)[..., projection.out].baddbmm_(x_a, b)
            else:
                y_NO[:, projection.out] += torch.bmm(x_a, b).flatten(0, 1)[self.place]
        return inner
