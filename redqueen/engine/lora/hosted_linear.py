"""Adds members' low-rank updates to the output of a linear layer that another library computes.

The layer may hold its weight in any form, also quantised: only its output is needed here, and autograd passes the
gradient of its input through the layer's own backward pass.

Shape suffixes: B sequences, T tokens, N = B x T rows, I inputs, O outputs, K = projections x rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from redqueen.engine.lora.sites import BackwardContext, Projection, RowAdapters, StackedFactors


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
