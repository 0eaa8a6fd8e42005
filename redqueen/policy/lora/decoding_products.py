"""The low-rank products of decoding: rows in any order, a few for each member, forward only.

Shape suffixes: N rows, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from redqueen.policy.lora.sites import Stacked
from redqueen.policy.lora.training_products import neighbours


class Padded:
    """Each member's rows padded to the longest group, in two batched products."""

    def __init__(self, slots: Sequence[int], device: torch.device) -> None:
        present = sorted(set(slots))
        members = {slot: [i for i, own in enumerate(slots) if own == slot] for slot in present}
        longest = max(len(rows) for rows in members.values())
        self.width = longest
        # a run of neighbouring slots is a view of the bank, any other choice a copy
        runs = neighbours(present)
        self.slots: Any = runs[0] if len(runs) == 1 else torch.tensor(present, device=device)
        padded = [row for slot in present for row in members[slot] + members[slot][:1] * (longest - len(members[slot]))]
        self.plain = padded == list(range(len(slots)))
        self.gather = torch.tensor(padded, device=device)
        places = {row: at for at, row in reversed(list(enumerate(padded)))}
        self.place = torch.tensor([places[row] for row in range(len(slots))], device=device)

    def add(self, factors: Stacked, x_NI: Tensor, y_NO: Tensor) -> Tensor:
        a = factors.a_copy[self.slots].mT
        x = (x_NI if self.plain else x_NI[self.gather]).view(len(a), self.width, -1)
        inner = torch.bmm(x, a)
        for block in factors.blocks:
            own, whole = inner[..., block.inner], block.copy[self.slots]
            if self.plain:
                y_NO.view(len(a), self.width, -1)[..., block.out].baddbmm_(own, whole)
            else:
                y_NO[:, block.out] += torch.bmm(own, whole).flatten(0, 1)[self.place]
        return inner
