"""All members' low-rank factors at one site, and which of them belong to the rows of a batch.

Layers that read the same input (q, k and v; gate and up) are one site. Their A factors are stacked, so that the input
is read once.

Shape suffixes: N rows, I inputs, O outputs, S slots, P one member's parameters, R rank, K = projections x rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

Allocate = Callable[[tuple[int, ...], torch.dtype], Tensor]
"""Makes a tensor of zeros of this shape and dtype, or returns one that other processes share."""


@dataclass(frozen=True, slots=True)
class Projection:
    """One linear layer of a site."""

    name: str
    """The layer's name in the transformers model."""
    start: int
    """First of its columns in the site's output."""
    end: int
    """The column after its last one."""

    @property
    def width(self) -> int:
        """The number of its outputs."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class ProjectionFactors:
    """All members' B of one linear layer."""

    inner: slice
    """The layer's columns in x A [N, K]."""
    out: slice
    """The layer's columns in y [N, O]."""
    b: Tensor
    """The masters of B [S, R, o], in fp32."""
    copy: Tensor
    """s·B [S, R, o] in the base's dtype."""


class SiteGradients(NamedTuple):
    """One site's share of the gradients [S, P]."""

    a: Tensor
    """[S, K, I]."""
    b: tuple[Tensor, ...]
    """[S, R, o] of each projection."""


class StackedFactors:
    """All members' factors at one site.

    `a` [S, K, I] holds the masters of A, transposed, in fp32; `a_copy` is the same in the base's dtype.
    `projections` holds B by layer; `b_copy` is their s·B in one flat tensor, one layer's [S, R, o] after the other.
    """

    def __init__(
        self,
        fan_in: int,
        dtype: torch.dtype,
        projections: Sequence[Projection],
        masters_SP: Tensor,
        rank: int,
        start: int,
        allocate: Allocate,
    ) -> None:
        """`fan_in` and `dtype` are the site's. Its factors begin at column `start` of `masters_SP`."""
        slots = len(masters_SP)
        self.rank = rank
        self.start = start
        self.fan_in = fan_in
        self.widths = [projection.width for projection in projections]
        self.a, b_masters = self.views(masters_SP)
        self.a_copy = allocate(tuple(self.a.shape), dtype)
        # Each layer's B factors are one contiguous block, because a batched product copies a slice of a larger tensor.
        self.b_copy = allocate((slots * rank * sum(self.widths),), dtype)
        b_copies = self.b_copy.split([slots * rank * width for width in self.widths])
        self.projections: list[ProjectionFactors] = []
        for index, (projection, b, copy) in enumerate(zip(projections, b_masters, b_copies, strict=True)):
            inner = slice(index * rank, (index + 1) * rank)
            out = slice(projection.start, projection.end)
            self.projections.append(ProjectionFactors(inner, out, b, copy.view(b.shape)))

    def views(self, flat_SP: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns this site's A [S, K, I] and each layer's B [S, R, o] as views of a tensor laid out as the masters."""
        slots = len(flat_SP)
        a = flat_SP[:, self.start : self.middle]
        b = flat_SP[:, self.middle : self.end]
        return a.view(slots, -1, self.fan_in), b.view(slots, self.rank, -1).split(self.widths, dim=2)

    @property
    def middle(self) -> int:
        """The column of P at which the factors A end and B begin."""
        return self.start + len(self.widths) * self.rank * self.fan_in

    @property
    def end(self) -> int:
        """The column of P at which the site's factors end."""
        return self.middle + self.rank * sum(self.widths)

    @property
    def inner_width(self) -> int:
        """K, the columns of x A."""
        return self.a_copy.shape[1]

    def refresh(self, slots: slice, scale_S11: Tensor) -> None:
        """Copies some members' masters to the tensors that products read."""
        # The scale is folded into the copy of B, once per update. Otherwise every product would multiply its rows by s.
        self.a_copy[slots].copy_(self.a[slots])
        for projection in self.projections:
            projection.copy[slots].copy_(projection.b[slots] * scale_S11)


class BackwardContext(NamedTuple):
    """One site in a backward pass."""

    factors: StackedFactors
    gradients: SiteGradients
    """The tensors that the pass adds to."""
    scales: Sequence[float]
    """s by slot."""


class LowRankProducts(Protocol):
    """One way to compute the low-rank products of a batch. It knows which rows belong to which slot."""

    def add(self, factors: StackedFactors, x_NI: Tensor, y_NO: Tensor) -> Tensor | None:
        """Adds s (x A) B to `y_NO` in place."""
        ...


@dataclass(frozen=True, slots=True)
class RowAdapters:
    """The adapters of a batch's rows."""

    factors: Mapping[str, StackedFactors]
    """The bank's factors by site."""
    scales: Sequence[float]
    """s = alpha / rank by slot."""
    products: LowRankProducts
    """Computes the products. It knows which rows belong to which slot."""
    count: int
    """How many rows the batch has."""
    gradients: Mapping[str, SiteGradients]
    """The tensors that a backward pass adds to, by site; empty if there is only a forward pass."""
