"""A frozen linear layer with many members' low-rank updates, applied to rows that are grouped by member.

y = x W^T + s * (x A_m) B_m for the rows of member m. Shapes: x [..., in], A [n, in, r], B [n, r, out].
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

# (slot, first row, end row), in rows of the batch's first axis
Group = tuple[int, int, int]


class Routing:
    """Which rows of the current batch belong to which slot; shared by all layers of one model."""

    def __init__(self) -> None:
        self.groups: tuple[Group, ...] = ()

    @contextmanager
    def rows(self, slots: Sequence[int]) -> Generator[None]:
        """Routes a batch whose row i belongs to `slots[i]`; equal slots must be neighbours."""
        previous, self.groups = self.groups, group_rows(slots)
        try:
            yield
        finally:
            self.groups = previous


def group_rows(slots: Sequence[int]) -> tuple[Group, ...]:
    """Runs of equal slots: `[2, 2, 0]` gives `((2, 0, 2), (0, 2, 3))`. Raises ValueError if a slot comes twice."""
    groups: list[Group] = []
    for row, slot in enumerate(slots):
        if groups and groups[-1][0] == slot:
            groups[-1] = (slot, groups[-1][1], row + 1)
        else:
            groups.append((slot, row, row + 1))
    if len({slot for slot, _, _ in groups}) != len(groups):
        raise ValueError("rows of one member must be neighbours: sort the batch by slot")
    return tuple(groups)


class GroupedLowRank(torch.autograd.Function):
    """Adds s * (x A_m) B_m to `y`, in place, group by group.

    The masters take the gradient (fp32); the products use their copies in the base's dtype.
    """

    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        x: Tensor,
        a: Tensor,
        b: Tensor,
        a_copy: Tensor,
        b_copy: Tensor,
        groups: tuple[Group, ...],
        scale: float,
    ) -> Tensor:
        inner = x.new_empty(x.shape[0], a.shape[2])
        for slot, start, end in groups:
            torch.mm(x[start:end], a_copy[slot], out=inner[start:end])
            y[start:end].addmm_(inner[start:end], b_copy[slot], alpha=scale)
        ctx.save_for_backward(x, inner, a_copy, b_copy)
        ctx.groups, ctx.scale = groups, scale
        ctx.shapes = (a.shape, b.shape, a.dtype)
        ctx.mark_dirty(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grads
        x, inner, a_copy, b_copy = ctx.saved_tensors
        a_shape, b_shape, master = ctx.shapes
        da = torch.zeros(a_shape, dtype=master, device=x.device)
        db = torch.zeros(b_shape, dtype=master, device=x.device)
        dx = torch.empty_like(x) if ctx.needs_input_grad[1] else None
        for slot, start, end in ctx.groups:
            rows = dy[start:end]
            d_inner = torch.mm(rows, b_copy[slot].T).mul_(ctx.scale)
            db[slot] = torch.mm(inner[start:end].T, rows)
            db[slot] *= ctx.scale
            da[slot] = torch.mm(x[start:end].T, d_inner)
            if dx is not None:
                torch.mm(d_inner, a_copy[slot].T, out=dx[start:end])
        return dy, dx, da, db, None, None, None, None


class MultiAdapterLinear(nn.Module):
    """Wraps a frozen `nn.Linear`; the rows' members come from the shared `routing`."""

    def __init__(self, base: nn.Linear, slots: int, rank: int, scale: float, routing: Routing) -> None:
        super().__init__()
        self.base = base
        self.scale = scale
        self.routing = routing
        device, compute = base.weight.device, base.weight.dtype
        self.a = nn.Parameter(torch.zeros(slots, base.in_features, rank, device=device))
        self.b = nn.Parameter(torch.zeros(slots, rank, base.out_features, device=device))
        # plain attributes, not buffers: they are derived from the masters and never saved
        self.a_copy = self.a.detach().to(compute, copy=True)
        self.b_copy = self.b.detach().to(compute, copy=True)

    def refresh(self, slot: int) -> None:
        """Brings the compute copies of `slot` up to date with its masters."""
        self.a_copy[slot].copy_(self.a.detach()[slot])
        self.b_copy[slot].copy_(self.b.detach()[slot])

    def forward(self, x: Tensor) -> Tensor:
        groups = self.routing.groups
        if not groups:
            return self.base(x)
        if x.shape[0] != groups[-1][2]:
            raise ValueError(f"a batch of {x.shape[0]} rows meets a routing of {groups[-1][2]}")
        flat = x.reshape(-1, x.shape[-1])
        per_row = len(flat) // x.shape[0]
        y = GroupedLowRank.apply(
            self.base(flat),
            flat,
            self.a,
            self.b,
            self.a_copy,
            self.b_copy,
            tuple((slot, start * per_row, end * per_row) for slot, start, end in groups),
            self.scale,
        )
        return y.view(*x.shape[:-1], -1)
