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

from redqueen.adapters import onednn

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

        Raises ValueError if N is not what `rows` was made for: the rest would run without adapters.
        """
        factors = rows.factors.get(self.name) if rows else None
        if rows is not None and len(x_NI) != rows.count:
            raise ValueError(f"{self.name}: a batch of {len(x_NI)} rows, whose members are known for {rows.count}")
        if torch.is_grad_enabled():
            if rows is None or factors is None:
                return F.linear(x_NI, self.weight, self.bias)
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
    """All members' B of one layer [S, R, o]: masters, gradients, and s·B in the base's dtype; and which columns of x A
    and of y are its own.
    """

    inner: slice
    out: slice
    b: Tensor
    grad: Tensor
    copy: Tensor


class Stacked:
    """All members' factors at one site.

    A lies transposed, [S, K, I]: `a` the masters in fp32, `a_grad` their gradients, `a_copy` A in the base's dtype. The
    masters of B and their gradients are [S, R, sum of the parts' outputs], of which `blocks` are views; `b_copy` is
    s·B in the base's dtype, one part [S, R, o] after the other. `aligned`: rows and parts begin at multiples of 16
    bytes.
    """

    def __init__(
        self,
        site: Site,
        parts: Sequence[Part],
        masters: tuple[Tensor, Tensor],
        grads: tuple[Tensor, Tensor],
        take: Take,
    ) -> None:
        (self.a, b_SRO), (self.a_grad, b_grad) = masters, grads
        slots, self.rank = b_SRO.shape[:2]
        self.a_copy = take(tuple(self.a.shape), site.weight.dtype)
        sizes = (self.rank, *site.weight.shape, *(n for part in parts for n in (part.start, part.end)))
        self.aligned = all(size * self.a_copy.element_size() % 16 == 0 for size in sizes)
        # a part's members lie together: a batched product would copy a part of something larger
        self.b_copy = take((slots * self.rank * b_SRO.shape[2],), site.weight.dtype)
        self.blocks: list[Block] = []
        start = 0
        for j, part in enumerate(parts):
            inner, out = slice(j * self.rank, (j + 1) * self.rank), slice(part.start, part.end)
            span = slice(start, start := start + part.end - part.start)
            copy = self.b_copy[span.start * slots * self.rank : span.stop * slots * self.rank]
            shape = (slots, self.rank, part.end - part.start)
            self.blocks.append(Block(inner, out, b_SRO[..., span], b_grad[..., span], copy.view(shape)))

    @property
    def width(self) -> int:
        """K, the columns of x A."""
        return self.a_copy.shape[1]

    def refresh(self, slots: slice, scale_S11: Tensor) -> None:
        """Brings some members' compute copies up to date with their masters."""
        self.a_copy[slots].copy_(self.a[slots])
        for block in self.blocks:
            block.copy[slots].copy_(block.b[slots] * scale_S11)


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


class LowRankLinear(torch.autograd.Function):
    """A site's forward and backward pass. The gradients of A and B are added to the bank's own buffers.

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
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy_NO,) = grads
        x_NI, inner_NK = ctx.saved_tensors
        dx_NI = dy_NO @ ctx.site.weight
        ctx.rows.kernel.backward(ctx.factors, x_NI, inner_NK, dy_NO, dx_NI, ctx.rows.scales)
        return dx_NI, None, None, None
