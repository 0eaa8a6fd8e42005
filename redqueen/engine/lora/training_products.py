"""The low-rank products of training: rows sorted by member, forward and backward.

Shape suffixes: N rows, I inputs, O outputs, K = projections x rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.lora.stacked_factors import BackwardContext, StackedFactors

Group = tuple[int, int, int]
"""A member's rows of a batch: slot, first row, end row."""


def group_rows(slots: Sequence[int], lengths: Sequence[int] | None = None) -> tuple[Group, ...]:
    """Returns runs of equal slots: `[2, 2, 0]` gives `((2, 0, 2), (0, 2, 3))`; item i has `lengths[i]` rows (or 1).

    Raises ValueError if a slot occurs in two runs: the batch has to be sorted by slot.
    """
    groups: list[Group] = []
    end = 0
    for slot, length in zip(slots, lengths or [1] * len(slots), strict=True):
        start = end
        end += length
        # An item of the same slot extends the last group; an empty item makes none.
        if groups and groups[-1][0] == slot:
            start = groups.pop()[1]
        if end > start:
            groups.append((slot, start, end))
    if len({slot for slot, _, _ in groups}) != len(groups):
        raise ValueError("the rows of a member must be consecutive: sort the batch by slot")
    return tuple(groups)


def contiguous_runs(slots: Iterable[int]) -> list[slice]:
    """Returns runs of consecutive slots: `[4, 2, 1]` gives `[slice(1, 3), slice(4, 5)]`."""
    runs: list[slice] = []
    for slot in sorted(set(slots)):
        start = runs.pop().start if runs and runs[-1].stop == slot else slot
        runs.append(slice(start, slot + 1))
    return runs


class _Run:
    """Members in consecutive slots that have equally many rows: their products are one batched product.

    A single member has plain products, which are a little faster.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        first_slot, start, _ = groups[0]
        last_slot, _, end = groups[-1]
        self.alone = first_slot == last_slot
        self.slots = slice(first_slot, last_slot + 1)
        self.rows = slice(start, end)
        self.sizes = (len(groups), -1)
        self.product = torch.mm if self.alone else torch.bmm
        self.add_product = Tensor.addmm_ if self.alone else Tensor.baddbmm_

    def of(self, rows: Tensor) -> Tensor:
        """Returns a view [members, rows of each, ...], or [rows, ...] for a single member."""
        return rows[self.rows] if self.alone else rows[self.rows].unflatten(0, self.sizes)

    def write_product(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        """Writes left @ right to `out`, whose rows need not be contiguous."""
        if self.alone:
            torch.mm(left, right, out=out)
        else:
            # A batched product into such rows would be computed another way, and rounded differently.
            out.copy_(torch.bmm(left, right))

    def by_member(self, rows: Tensor) -> Tensor:
        """Returns what `of` returned as [members, rows of each, ...], also for a single member."""
        return rows[None] if self.alone else rows

    def members(self, stacked: Tensor) -> Tensor:
        """Returns a view of the run's slots [members, ...], or of a single member's."""
        return stacked[self.slots.start] if self.alone else stacked[self.slots]


def _runs(groups: Sequence[Group]) -> Iterator[_Run]:
    run: list[Group] = []
    for slot, start, end in groups:
        if run:
            last_slot, last_start, last_end = run[-1]
            if slot != last_slot + 1 or end - start != last_end - last_start:
                yield _Run(run)
                run = []
        run.append((slot, start, end))
    if run:
        yield _Run(run)


class SlicedMatmul:
    """Multiplies one slice of the batch after the other, on any device and without waiting for it.

    Consecutive members with equally many rows share one batched product. If groups are small, the overhead of separate
    calls would be half of the time.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        self.runs = tuple(_runs(groups))

    def add(self, factors: StackedFactors, x_NI: Tensor, y_NO: Tensor) -> Tensor:
        inner_NK = x_NI.new_empty(len(x_NI), factors.inner_width)
        for run in self.runs:
            inner = run.of(inner_NK)
            y = run.of(y_NO)
            run.product(run.of(x_NI), run.members(factors.a_copy).mT, out=inner)
            for projection in factors.projections:
                run.add_product(y[..., projection.out], inner[..., projection.inner], run.members(projection.copy))
        return inner_NK

    def backward(self, site: BackwardContext, x_NI: Tensor, inner_NK: Tensor, dy_NO: Tensor, dx_NI: Tensor) -> None:
        factors, grads, scales = site
        kernels = kernels_of(dy_NO)
        for run in self.runs:
            inner = run.of(inner_NK)
            dy = run.of(dy_NO)
            d_inner = torch.empty_like(inner)
            # The copies hold s·B, so the gradient of x A comes out scaled, and with it that of A. The gradient of B
            # does not pass through a copy and takes the factor s when it is added.
            for projection, grads_b in zip(factors.projections, grads.b, strict=True):
                dy_part = dy[..., projection.out]
                run.write_product(dy_part, run.members(projection.copy).mT, d_inner[..., projection.inner])
                inner_part = run.by_member(inner[..., projection.inner])
                kernels.add_products_(grads_b[run.slots], inner_part.mT, run.by_member(dy_part), scales[run.slots])
            ones = [1.0] * len(scales[run.slots])
            kernels.add_products_(grads.a[run.slots], run.by_member(d_inner).mT, run.by_member(run.of(x_NI)), ones)
            run.add_product(run.of(dx_NI), d_inner, run.members(factors.a_copy))
