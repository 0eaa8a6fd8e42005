"""Frozen linear layers with many members' low-rank updates, applied to rows that belong to different members.

y = x W^T + s_m (x A_m) B_m for the rows of member m. Layers that read the same input (q, k and v; gate and up) are one
site: their weights are stacked, and so are their A factors, so that x is read once.

Shape suffixes: N rows, I inputs, O outputs, S slots, K = parts x rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

# makes a tensor of zeros of this shape and type, or takes one that others share
Take = Callable[[tuple[int, ...], torch.dtype], Tensor]


@dataclass(frozen=True, slots=True)
class Part:
    """One linear layer of a site, by its name in the model; `start:end` are its columns of the site's output."""

    name: str
    start: int
    end: int


# with more rows a product is bound by arithmetic, and packed weights gain nothing (measured)
_FEW_ROWS = 256


@dataclass(frozen=True, slots=True)
class Site:
    """Frozen linear layers over one input: weight [O, I], bias [O] or None.

    `packed` is the weight once more, in the order in which this processor's product with few rows reads it.
    """

    name: str
    weight: Tensor
    bias: Tensor | None
    parts: tuple[Part, ...]
    packed: Tensor | None = None

    def __call__(self, x_NI: Tensor, rows: Rows | None = None) -> Tensor:
        """[N, O]; without `rows`, or where no member has factors here, the base alone.

        Raises ValueError if N is not what `rows` was made for: the rest would run without adapters.
        """
        factors = rows.factors.get(self.name) if rows else None
        if rows is not None and len(x_NI) != rows.count:
            raise ValueError(f"{self.name}: a batch of {len(x_NI)} rows, whose members are known for {rows.count}")
        if torch.is_grad_enabled():
            if rows is None or factors is None:
                return F.linear(x_NI, self.weight, self.bias)
            return LowRankLinear.apply(x_NI, self.weight, self.bias, factors, rows)
        if self.packed is not None and len(x_NI) <= _FEW_ROWS:
            y_NO = torch.ops.mkldnn._linear_pointwise(x_NI, self.packed, self.bias, "none", [], "")
        else:
            y_NO = F.linear(x_NI, self.weight, self.bias)
        if rows is not None and factors is not None:
            rows.kernel.add(factors, x_NI, y_NO)
        return y_NO


def packed(weight: Tensor) -> Tensor | None:
    """`weight` as oneDNN packs it for products with few rows; None where that is not to be had.

    The operators are torch's own for compiled models (private, so looked for), bf16 on a CPU. Decoding 32 rows takes a
    quarter less with them, for the memory of one more copy of the weights.
    """
    ready = weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and torch.backends.mkldnn.is_available()
    if not ready or not all(hasattr(torch.ops.mkldnn, n) for n in ("_linear_pointwise", "_reorder_linear_weight")):
        return None
    return torch.ops.mkldnn._reorder_linear_weight(weight, 32)


@dataclass(frozen=True, slots=True)
class Block:
    """One member's B of one layer [R, o], as views, and where x A and y have its columns."""

    inner: slice
    out: slice
    b: Tensor
    b_grad: Tensor
    b_copy: Tensor


@dataclass(frozen=True, slots=True)
class Own:
    """One member's factors at one site, as views of the stacked tensors. A is [I, K]."""

    a: Tensor
    a_grad: Tensor
    a_copy: Tensor
    blocks: tuple[Block, ...]

    def refresh(self, scale: float) -> None:
        """Brings the compute copies up to date with the masters."""
        self.a_copy.copy_(self.a)
        for block in self.blocks:
            block.b_copy.copy_(block.b * scale)


class Stacked:
    """All members' factors at one site.

    The masters are fp32: A [S, I, K] and B [S, R, sum of the parts' outputs], and so are the gradients. `a_copy` is A
    and `b_copies` are each part's s·B in the base's dtype. `aligned`: rows and parts begin at
    multiples of 16 bytes.
    """

    def __init__(
        self,
        site: Site,
        parts: Sequence[Part],
        masters: tuple[Tensor, Tensor],
        grads: tuple[Tensor, Tensor],
        take: Take,
    ) -> None:
        (a_SIK, b_SRO), (a_grad, b_grad) = masters, grads
        slots, rank = b_SRO.shape[:2]
        self.a_copy = take(tuple(a_SIK.shape), site.weight.dtype)
        # one by part: a batched product would copy a part of something larger
        self.b_copies = [take((slots, rank, part.end - part.start), site.weight.dtype) for part in parts]
        sizes = (rank, *site.weight.shape, *(n for part in parts for n in (part.start, part.end)))
        self.aligned = all(size * self.a_copy.element_size() % 16 == 0 for size in sizes)
        self.own: list[Own] = []
        for slot in range(slots):
            blocks: list[Block] = []
            start = 0
            for j, part in enumerate(parts):
                span = slice(start, start := start + part.end - part.start)
                b, grad, copy = b_SRO[slot, :, span], b_grad[slot, :, span], self.b_copies[j][slot]
                blocks.append(Block(slice(j * rank, (j + 1) * rank), slice(part.start, part.end), b, grad, copy))
            self.own.append(Own(a_SIK[slot], a_grad[slot], self.a_copy[slot], tuple(blocks)))

    @property
    def width(self) -> int:
        """K, the columns of x A."""
        return self.a_copy.shape[2]


class Kernel(Protocol):
    """One way to compute the low-rank products of a batch."""

    def add(self, factors: Stacked, x_NI: Tensor, y_NO: Tensor) -> Tensor:
        """Adds s (x A) B to `y_NO` in place; returns x A, which `backward` wants back."""
        ...

    def backward(
        self, factors: Stacked, x_NI: Tensor, inner_NK: Tensor, dy_NO: Tensor, dx_NI: Tensor, scales: Sequence[float]
    ) -> None:
        """Adds to the members' gradients, and to `dx_NI` in place; `scales` are s by slot."""
        ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Whose rows a batch holds: the bank's factors by site, its scales by slot, the kernel that knows the rows, and how
    many they are.
    """

    factors: dict[str, Stacked]
    scales: Sequence[float]
    kernel: Kernel
    count: int


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


class Padded:
    """Rows in any order, few for each member: groups padded to the longest, in two batched products. Forward only."""

    def __init__(self, slots: Sequence[int], device: torch.device) -> None:
        present = sorted(set(slots))
        members = {slot: [i for i, own in enumerate(slots) if own == slot] for slot in present}
        longest = max(len(rows) for rows in members.values())
        self.width = longest
        # a run of neighbouring slots is a view of the bank, any other choice a copy
        first, last = present[0], present[-1]
        self.slots: Any = slice(first, last + 1)
        if last - first + 1 != len(present):
            self.slots = torch.tensor(present, device=device)
        padded = [row for slot in present for row in members[slot] + members[slot][:1] * (longest - len(members[slot]))]
        self.plain = padded == list(range(len(slots)))
        self.gather = torch.tensor(padded, device=device)
        places = {row: at for at, row in reversed(list(enumerate(padded)))}
        self.place = torch.tensor([places[row] for row in range(len(slots))], device=device)

    def add(self, factors: Stacked, x_NI: Tensor, y_NO: Tensor) -> Tensor:
        a = factors.a_copy[self.slots]
        x = (x_NI if self.plain else x_NI[self.gather]).view(len(a), self.width, -1)
        inner = torch.bmm(x, a)
        for block, b in zip(factors.own[0].blocks, factors.b_copies, strict=True):
            own, whole = inner[..., block.inner], b[self.slots]
            if self.plain:
                y_NO.view(len(a), self.width, -1)[..., block.out].baddbmm_(own, whole)
            else:
                y_NO[:, block.out] += torch.bmm(own, whole).flatten(0, 1)[self.place]
        return inner

    def backward(
        self, factors: Stacked, x_NI: Tensor, inner_NK: Tensor, dy_NO: Tensor, dx_NI: Tensor, scales: Sequence[float]
    ) -> None:
        raise NotImplementedError("decoding has no backward pass")


class LowRankLinear(torch.autograd.Function):
    """A site's forward and backward pass. The gradients of A and B are added to the bank's own buffers.

    Autograd would make and add a gradient of the whole bank at every site of every micro-batch.
    """

    @staticmethod
    def forward(
        ctx: Any, x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None, factors: Stacked, rows: Rows
    ) -> Tensor:
        y_NO = F.linear(x_NI, weight_OI, bias_O)
        inner_NK = rows.kernel.add(factors, x_NI, y_NO)
        ctx.save_for_backward(x_NI, weight_OI, inner_NK)
        ctx.factors, ctx.rows = factors, rows
        return y_NO

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy_NO,) = grads
        x_NI, weight_OI, inner_NK = ctx.saved_tensors
        dx_NI = dy_NO @ weight_OI
        ctx.rows.kernel.backward(ctx.factors, x_NI, inner_NK, dy_NO, dx_NI, ctx.rows.scales)
        return dx_NI, None, None, None, None
