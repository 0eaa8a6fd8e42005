"""The kernels of a GPU in bf16 or fp16: torch's operations, compiled into one or two passes over memory each.

Shape suffixes as in `redqueen.engine.kernels.interface`.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from redqueen.engine.kernels.compiler import can_compile
from redqueen.engine.kernels.flash import VarlenAttention
from redqueen.engine.kernels.torch_kernels import TorchKernels
from redqueen.engine.kernels.torch_ops import Ops, Wrap

_LOG = logging.getLogger("redqueen")

_Function = TypeVar("_Function", bound=Callable[..., object])


def as_written(function: Callable[..., object]) -> Callable[..., object]:
    """Returns the function that computes on other devices than a GPU: `function` itself. A counter replaces it."""
    return function


def compiled_on_gpu(function: _Function, /, backend: Any = "inductor", device: str = "cuda") -> _Function:
    """Returns `function`, compiled when it is first called with tensors on a GPU; elsewhere it runs as it is.

    It also runs as it is where nothing can be compiled (`redqueen.engine.kernels.compiler`).
    """

    @functools.cache
    def compiled() -> Callable[..., object]:
        if not can_compile():
            return function
        _announce()
        return torch.compile(function, backend=backend, fullgraph=True)

    @functools.wraps(function)
    def call(*args: Any) -> object:
        if args[0].device.type != device:
            return as_written(function)(*args)
        # One compilation serves any number of rows, with gradients and without. Everything else (heads, sizes, weights)
        # never changes in a run, and constants make better code.
        dynamo = importlib.import_module("torch._dynamo")
        plain: list[object] = []
        for arg in args:
            if isinstance(arg, Tensor):
                arg = arg.detach()
                if arg.dim() > 1 or not arg.is_floating_point():
                    dynamo.maybe_mark_dynamic(arg, 0)
            plain.append(arg)
        return compiled()(*plain)

    return cast(_Function, call)


@functools.cache
def _announce() -> None:
    """Says, once in a process, why the first steps take longer."""
    kept = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    where = f"; they are kept in {kept}" if kept else ""
    _LOG.warning("compiling kernels for the GPU, which can take minutes the first time%s", where)


class GpuKernels(TorchKernels):
    """See `redqueen.engine.kernels.interface.Kernels`."""

    # Each chunk reads the vocabulary matrix twice; with so many rows that is hidden behind the products.
    logit_rows = 1024

    def __init__(self, wrap: Wrap = compiled_on_gpu) -> None:
        self.ops = Ops(wrap)
        self.varlen = functools.partial(VarlenAttention.apply, self.ops)

    def add_products_(self, out: Tensor, left: Tensor, right: Tensor, scales: Sequence[float]) -> None:
        for total, one, other, scale in zip(out, left, right, scales, strict=True):
            # The product is summed in fp32 and added in fp32, in one call.
            torch.addmm(total, one, other, alpha=scale, out_dtype=total.dtype, out=total)

    def score_memory(self, weight_VH: Tensor, rows: int) -> tuple[Tensor, ...]:
        return (weight_VH.new_empty(rows, len(weight_VH), dtype=torch.float32),)

    def score_(
        self,
        hidden_CH: Tensor,
        weight_VH: Tensor,
        target_C: Tensor,
        temperature: float,
        logp_C: Tensor,
        slope_CH: Tensor,
        memory: tuple[Tensor, ...],
    ) -> None:
        # Logits in fp32: their products are summed in fp32 anyway, and rounding them to bf16 would make up a third of
        # the error of a log-probability.
        logits_CV = memory[0][: len(hidden_CH)]
        torch.mm(hidden_CH, weight_VH.T, out_dtype=torch.float32, out=logits_CV)
        found_C, shares_CV = self.ops.token_shares(logits_CV, target_C, temperature, weight_VH.dtype)
        logp_C.copy_(found_C)
        # d logp / d hidden = (W[target] - sum over v of p(v) W[v]) / T.
        torch.index_select(weight_VH, 0, target_C, out=slope_CH)
        slope_CH.addmm_(shares_CV, weight_VH, beta=1 / temperature, alpha=-1 / temperature)
