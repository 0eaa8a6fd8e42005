"""The low-rank products of training (rows sorted by member, forward and backward), of decoding, and of hosted layers.

Shape suffixes: N rows, I inputs, O outputs, K = projections x rank; of hosted layers B sequences, T tokens, N = B x T.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from redqueen.engine.kernels import dispatch, low_rank
from redqueen.engine.kernels.dispatch import can_compile, kernels_of
from redqueen.engine.lora.sites import BackwardContext, LowRankProducts, Projection, RowAdapters, Site, StackedFactors
from redqueen.engine.tensor_memory import to_device

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


# The products of decoding: rows in any order, a few for each member, forward only.


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


# Members' low-rank updates of the output of a linear layer that another library computes.
#
# The layer may hold its weight in any form, also quantised: only its output is needed here, and autograd passes the
# gradient of its input through the layer's own backward pass.


@dataclass(frozen=True, slots=True)
class HostedLinear:
    """One linear layer of a transformers model."""

    name: str
    fan_in: int
    """I."""
    fan_out: int
    """O."""
    dtype: torch.dtype
    """The dtype of inputs and outputs."""
    device: torch.device

    @property
    def projections(self) -> tuple[Projection, ...]:
        """The layer itself: no two layers are computed as one."""
        return (Projection(self.name, 0, self.fan_out),)

    @property
    def weights(self) -> int:
        """The number of weights, however they are stored."""
        return self.fan_in * self.fan_out

    def update(self, x_BTI: Tensor, y_BTO: Tensor, adapters: RowAdapters) -> Tensor:
        """Returns the layer's output with the members' updates added, in place.

        Raises ValueError if `adapters` was made for another number of rows, because the rest would run without
        adapters.
        """
        factors = adapters.factors.get(self.name)
        if factors is None:
            return y_BTO
        rows = x_BTI.numel() // self.fan_in
        if rows != adapters.count:
            raise ValueError(f"{self.name}: a batch of {rows} rows, but the members of {adapters.count} are known")
        if torch.is_grad_enabled():
            # Autograd cannot follow a change of a view that was made inside another function, as int8's is.
            if isinstance(y_BTO.grad_fn, BackwardCFunction) and y_BTO._base is not None:
                y_BTO = y_BTO.clone()
            return LowRankUpdate.apply(y_BTO, x_BTI, self, factors, adapters)
        adapters.products.add(factors, self.inputs(x_BTI), y_BTO.view(-1, self.fan_out))
        return y_BTO

    def inputs(self, x_BTI: Tensor) -> Tensor:
        """Returns the inputs as rows [N, I]."""
        return x_BTI.reshape(-1, self.fan_in)


AdaptedSite = Site | HostedLinear
"""What has a place in the adapter bank: layers of our own forward pass, or one of transformers'."""


class LowRankUpdate(torch.autograd.Function):
    """The forward and backward pass of the update alone. The gradients of A and B go where `adapters` says."""

    # What is changed in place comes first. It may be a view, and autograd takes the first input of a function that
    # changes a view for the view.

    @staticmethod
    def forward(
        ctx: Any, y_BTO: Tensor, x_BTI: Tensor, site: HostedLinear, factors: StackedFactors, adapters: RowAdapters
    ) -> Tensor:
        inner_NK = adapters.products.add(factors, site.inputs(x_BTI), y_BTO.view(-1, site.fan_out))
        # The output of the layer is not needed for its own backward pass, so it is changed where it lies.
        ctx.mark_dirty(y_BTO)
        ctx.save_for_backward(x_BTI, inner_NK)
        ctx.site = site
        ctx.factors = factors
        ctx.adapters = adapters
        return y_BTO

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy_BTO,) = grads
        x_BTI, inner_NK = ctx.saved_tensors
        site: HostedLinear = ctx.site
        adapters = ctx.adapters
        # Only the part of the gradient that passes through the update; autograd adds the frozen layer's own.
        dx_NI = x_BTI.new_zeros(len(inner_NK), site.fan_in)
        context = BackwardContext(ctx.factors, adapters.gradients[site.name], adapters.scales)
        dy_NO = dy_BTO.reshape(-1, site.fan_out)
        adapters.products.backward(context, site.inputs(x_BTI), inner_NK, dy_NO, dx_NI)
        return dy_BTO, dx_NI.view_as(x_BTI), None, None, None
