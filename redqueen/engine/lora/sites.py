"""Frozen linear layers with many members' low-rank updates, applied to rows that belong to different members.

y = x W^T + b + s_m (x A_m) B_m for the rows of member m, s_m = alpha / rank (LoRA, Hu et al. 2021, section 4.1).

Shape suffixes: N rows, I inputs, O outputs, K = projections x rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from redqueen.engine.kernels import onednn
from redqueen.engine.lora.stacked_factors import BackwardContext, Projection, RowAdapters, StackedFactors


class AdaptedSite(Protocol):
    """What the adapter bank needs to know of frozen linear layers over one input."""

    @property
    def name(self) -> str:
        """The site's name."""
        ...

    @property
    def projections(self) -> tuple[Projection, ...]:
        """The layers."""
        ...

    @property
    def fan_in(self) -> int:
        """I, the number of inputs."""
        ...

    @property
    def weights(self) -> int:
        """The number of the layers' weights."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of inputs and outputs."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        ...


@dataclass(frozen=True, slots=True)
class Site:
    """Frozen linear layers over one input (see `AdaptedSite`)."""

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
        return self.weight.shape[1]

    @property
    def weights(self) -> int:
        return self.weight.numel()

    @property
    def dtype(self) -> torch.dtype:
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
            return onednn.linear(x_NI, self.packed, self.bias)
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
