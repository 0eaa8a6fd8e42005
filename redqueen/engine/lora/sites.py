"""Frozen linear layers with many members' low-rank updates, applied to rows that belong to different members.

y = x W^T + b + s_m (x A_m) B_m for the rows of member m, s_m = alpha / rank (LoRA, Hu et al. 2021, section 4.1).

Shape suffixes: N rows, I inputs, O outputs, S or M slots, P one member's parameters, R rank,
K = projections x rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from redqueen.engine.kernels.torch_ops import packed_linear

# Layers that read the same input (q, k and v; gate and up) are one site. Their A factors are stacked, so that the input
# is read once.

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
        masters_MP: Tensor,
        rank: int,
        start: int,
        allocate: Allocate,
    ) -> None:
        """`fan_in` and `dtype` are the site's. Its factors begin at column `start` of `masters_MP`."""
        slots = len(masters_MP)
        self.rank = rank
        self.start = start
        self.fan_in = fan_in
        self.widths = [projection.width for projection in projections]
        self.a, b_masters = self.views(masters_MP)
        self.a_copy = allocate(tuple(self.a.shape), dtype)
        # Each layer's B factors are one contiguous block, because a batched product copies a slice of a larger tensor.
        self.b_copy = allocate((slots * rank * sum(self.widths),), dtype)
        b_copies = self.b_copy.split([slots * rank * width for width in self.widths])
        self.projections: list[ProjectionFactors] = []
        for index, (projection, b, copy) in enumerate(zip(projections, b_masters, b_copies, strict=True)):
            inner = slice(index * rank, (index + 1) * rank)
            out = slice(projection.start, projection.end)
            self.projections.append(ProjectionFactors(inner, out, b, copy.view(b.shape)))

    def views(self, flat_MP: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns this site's A [S, K, I] and each layer's B [S, R, o] as views of a tensor laid out as the masters."""
        slots = len(flat_MP)
        a = flat_MP[:, self.start : self.middle]
        b = flat_MP[:, self.middle : self.end]
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

    def refresh(self, slots: slice, scale_M11: Tensor) -> None:
        """Copies some members' masters to the tensors that products read."""
        # The scale is folded into the copy of B, once per update. Otherwise every product would multiply its rows by s.
        self.a_copy[slots].copy_(self.a[slots])
        for projection in self.projections:
            projection.copy[slots].copy_(projection.b[slots] * scale_M11)


class BackwardContext(NamedTuple):
    """One site in a backward pass."""

    factors: StackedFactors
    gradients: SiteGradients
    """The tensors that the pass adds to."""
    scales: Sequence[float]
    """s by slot."""


class LowRankProducts(Protocol):
    """One way to compute the low-rank products of a batch. It knows which rows belong to which slot.

    Those of training have a `backward` beside (`SlicedMatmul`).
    """

    def add(self, factors: StackedFactors, x_NI: Tensor, y_NO: Tensor) -> Tensor | None:
        """Adds s (x A) B to `y_NO` in place. Returns x A if a backward pass will need it."""
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


@dataclass(frozen=True, slots=True)
class Site:
    """Frozen linear layers over one input."""

    name: str
    weight: Tensor
    """[O, I], the layers' weights one after the other."""
    bias: Tensor | None
    """[O]."""
    projections: tuple[Projection, ...]
    """The layers."""
    packed: Tensor | None = None
    """A second copy of the weight, in the order in which this processor's products read it; None if there is none."""

    @property
    def fan_in(self) -> int:
        """I, the number of inputs."""
        return self.weight.shape[1]

    @property
    def weights(self) -> int:
        """The number of the layers' weights."""
        return self.weight.numel()

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of inputs and outputs."""
        return self.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.weight.device

    def __call__(self, x_NI: Tensor, adapters: RowAdapters | None = None) -> Tensor:
        """Returns the output [N, O]: the base's alone if `adapters` is None or no member has factors here.

        Raises ValueError if `adapters` was made for another number of rows, because the rest would run without
        adapters, or if gradients are on and `adapters` holds no gradients of this site.
        """
        factors = adapters.factors.get(self.name) if adapters else None
        if adapters is not None and len(x_NI) != adapters.count:
            raise ValueError(f"{self.name}: a batch of {len(x_NI)} rows, but the members of {adapters.count} are known")
        if torch.is_grad_enabled():
            if adapters is None or factors is None:
                return F.linear(x_NI, self.weight, self.bias)
            if self.name not in adapters.gradients:
                raise ValueError(f"{self.name}: gradients are on, but there is no tensor for the members' gradients")
            return LowRankLinear.apply(x_NI, self, factors, adapters)
        # Without gradients the adapters' output is added to the base's in place, so no second output exists.
        y_NO = self.frozen(x_NI)
        if adapters is not None and factors is not None:
            adapters.products.add(factors, x_NI, y_NO)
        return y_NO

    def frozen(self, x_NI: Tensor) -> Tensor:
        """Returns x W^T + b, without a gradient."""
        if self.packed is not None:
            return packed_linear(x_NI, self.packed, self.bias)
        return F.linear(x_NI, self.weight, self.bias)


class LowRankLinear(torch.autograd.Function):
    """A site's forward and backward pass. The gradients of A and B are added to the tensors that `adapters` holds."""

    # A and B are no inputs of autograd on purpose. It would return their gradients as new tensors of the whole bank, at
    # every site of every micro-batch, and add them up afterwards; here each product adds to one buffer directly.

    @staticmethod
    def forward(ctx: Any, x_NI: Tensor, site: Site, factors: StackedFactors, adapters: RowAdapters) -> Tensor:
        y_NO = site.frozen(x_NI)
        inner_NK = adapters.products.add(factors, x_NI, y_NO)
        # x A is saved, because it is thin (K columns) and the gradient of B needs it.
        ctx.save_for_backward(x_NI, inner_NK)
        ctx.site = site
        ctx.factors = factors
        ctx.adapters = adapters
        return y_NO

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy_NO,) = grads
        x_NI, inner_NK = ctx.saved_tensors
        adapters = ctx.adapters
        # The base is frozen: its weight passes a gradient on and takes none. Packed weights serve forward passes only.
        dx_NI = dy_NO @ ctx.site.weight
        site = BackwardContext(ctx.factors, adapters.gradients[ctx.site.name], adapters.scales)
        adapters.products.backward(site, x_NI, inner_NK, dy_NO, dx_NI)
        return dx_NI, None, None, None
