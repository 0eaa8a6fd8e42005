"""Frozen linear layers with many members' low-rank updates, applied to rows that belong to different members.

y = x W^T + s_m (x A_m) B_m for the rows of member m. Layers that read the same input (q, k and v; gate and up) are one
site: their weights are stacked, and so are their A factors, so that x is read once.

Shape suffixes: N rows, I inputs, O outputs, S slots, K = parts x rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from redqueen.policy.kernels import onednn

# makes a tensor of zeros of this shape and type, or takes one that others share
Take = Callable[[tuple[int, ...], torch.dtype], Tensor]


@dataclass(frozen=True, slots=True)
class Part:
    """One linear layer of a site, by its name in the model; `start:end` are its columns of the site's output."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Site:
    """Frozen linear layers over one input: weight [O, I], bias [O] or None.

    `packed` is the weight once more, in the order in which this processor's products read it.
    """

    name: str
    weight: Tensor
    bias: Tensor | None
    parts: tuple[Part, ...]
    packed: Tensor | None = None

    def __call__(self, x_NI: Tensor, rows: Rows | None = None) -> Tensor:
        """[N, O]; without `rows`, or where no member has factors here, the base alone.

        Raises ValueError if N is not what `rows` was made for (the rest would run without adapters), or if gradients
        are on and `rows` has no place for them.
        """
        factors = rows.factors.get(self.name) if rows else None
        if rows is not None and len(x_NI) != rows.count:
            raise ValueError(f"{self.name}: a batch of {len(x_NI)} rows, whose members are known for {rows.count}")
        if torch.is_grad_enabled():
            if rows is None or factors is None:
                return F.linear(x_NI, self.weight, self.bias)
            if self.name not in rows.gradients:
                raise ValueError(f"{self.name}: gradients are on, and there is no place for the members'")
            return LowRankLinear.apply(x_NI, self, factors, rows)
        y_NO = self.frozen(x_NI)
        if rows is not None and factors is not None:
            rows.kernel.add(factors, x_NI, y_NO)
        return y_NO

    def frozen(self, x_NI: Tensor) -> Tensor:
        """x W^T + b, without a gradient."""
        if self.packed is not None:
            return onednn.linear(x_NI, self.packed, self.bias)
        return F.linear(x_NI, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class Block:
    """All members' B of one layer [S, R, o]: masters, and s·B in the base's dtype; which columns of x A and of y are
    its own.
    """

    inner: slice
    out: slice
    b: Tensor
    copy: Tensor


class Views(NamedTuple):
    """One site's share of tensors [S, P]: A's [S, K, I], and of each part's B [S, R, o]."""

    a: Tensor
    b: tuple[Tensor, ...]


class Stacked:
    """All members' factors at one site.

    A lies transposed, [S, K, I]: `a` the masters in fp32, `a_copy` A in the base's dtype. `blocks` have the masters of
    B; `b_copy` is s·B in the base's dtype, one part [S, R, o] after the other. `aligned`: rows and parts begin at
    multiples of 16 bytes.
    """

    def __init__(
        self, site: Site, parts: Sequence[Part], masters_SP: Tensor, rank: int, start: int, take: Take
    ) -> None:
        """`start`: where in the P of `masters_SP` the site's factors begin."""
        slots, self.rank, self.start = len(masters_SP), rank, start
        self.fan_in, self.widths = site.weight.shape[1], [part.end - part.start for part in parts]
        self.a, b_parts = self.views(masters_SP)
        self.a_copy = take(tuple(self.a.shape), site.weight.dtype)
        sizes = (self.rank, *site.weight.shape, *(n for part in parts for n in (part.start, part.end)))
        self.aligned = all(size * self.a_copy.element_size() % 16 == 0 for size in sizes)
        # a part's members lie together: a batched product would copy a part of something larger
        self.b_copy = take((slots * self.rank * sum(self.widths),), site.weight.dtype)
        copies = self.b_copy.split([slots * self.rank * width for width in self.widths])
        self.blocks: list[Block] = []
        for j, (part, b, copy) in enumerate(zip(parts, b_parts, copies, strict=True)):
            inner, out = slice(j * self.rank, (j + 1) * self.rank), slice(part.start, part.end)
            self.blocks.append(Block(inner, out, b, copy.view(b.shape)))

    def views(self, flat_SP: Tensor) -> Views:
        """What of the masters, or of tensors that lie alike, belongs to this site."""
        slots = len(flat_SP)
        a, b = flat_SP[:, self.start : self.end].split((self.middle - self.start, self.end - self.middle), dim=1)
        return Views(a.view(slots, -1, self.fan_in), b.view(slots, self.rank, -1).split(self.widths, dim=2))

    @property
    def middle(self) -> int:
        """Where in P the factors A end, and B begin."""
        return self.start + len(self.widths) * self.rank * self.fan_in

    @property
    def end(self) -> int:
        """Where in P the site's factors end."""
        return self.middle + self.rank * sum(self.widths)

    @property
    def width(self) -> int:
        """K, the columns of x A."""
        return self.a_copy.shape[1]

    def refresh(self, slots: slice, scale_S11: Tensor) -> None:
        """Brings some members' compute copies up to date with their masters."""
        self.a_copy[slots].copy_(self.a[slots])
        for block in self.blocks:
            block.copy[slots].copy_(block.b[slots] * scale_S11)


class Learning(NamedTuple):
    """One site in a backward pass: its factors, the gradients to add to, and s by slot."""

    factors: Stacked
    gradients: Views
    scales: Sequence[float]


class Kernel(Protocol):
    """One way to compute the low-rank products of a batch."""

    def add(self, factors: Stacked, x_NI: Tensor, y_NO: Tensor) -> Tensor:
        """Adds s (x A) B to `y_NO` in place; returns x A."""
        ...


class TrainingKernel(Kernel, Protocol):
    """One that has a backward pass too."""

    def backward(self, site: Learning, x_NI: Tensor, inner_NK: Tensor, dy_NO: Tensor, dx_NI: Tensor) -> None:
        """Adds to the members' gradients, and to `dx_NI`, in place; `inner_NK` is what `add` returned."""
        ...


@dataclass(frozen=True, slots=True)
class Rows:
    """Whose rows a batch holds: the bank's factors by site, its scales by slot, the kernel that knows the rows, how
    many they are, and by site the gradients that a backward pass adds to (empty: forward only).
    """

    factors: Mapping[str, Stacked]
    scales: Sequence[float]
    kernel: Kernel
    count: int
    gradients: Mapping[str, Views]


class LowRankLinear(torch.autograd.Function):
    """A site's forward and backward pass. The gradients of A and B are added to the rows' own buffers.

    Autograd would make and add a gradient of the whole bank at every site of every micro-batch.
    """

    @staticmethod
    def forward(ctx: Any, x_NI: Tensor, site: Site, factors: Stacked, rows: Rows) -> Tensor:
        y_NO = site.frozen(x_NI)
        inner_NK = rows.kernel.add(factors, x_NI, y_NO)
        ctx.save_for_backward(x_NI, inner_NK)
        ctx.site, ctx.factors, ctx.rows = site, factors, rows
        return y_NO

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        (dy_NO,) = outer
        x_NI, inner_NK = ctx.saved_tensors
        dx_NI = dy_NO @ ctx.site.weight
        site = Learning(ctx.factors, ctx.rows.gradients[ctx.site.name], ctx.rows.scales)
        ctx.rows.kernel.backward(site, x_NI, inner_NK, dy_NO, dx_NI)
        return dx_NI, None, None, None
