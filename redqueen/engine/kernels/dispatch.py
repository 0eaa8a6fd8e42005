"""Which kernels compute with a tensor. Only this module chooses an implementation.

Everything else that depends on the device asks `on_gpu`. REDQUEEN_WAYS=gpu takes a GPU's ways on a CPU, to test them.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import shutil
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from redqueen.base.optional import is_installed
from redqueen.engine.kernels import Kernels
from redqueen.engine.kernels.flash import VarlenAttention
from redqueen.engine.kernels.torch_ops import NATS_PER_BIT, Ops, Take, Wrap
from redqueen.errors import ModelError

# Whether kernels for a GPU can be compiled on this machine.


@functools.cache
def can_compile() -> bool:
    """Returns whether Triton's kernels, and with them those of `torch.compile`, can be compiled for a GPU here."""
    return not missing_for_kernels()


def missing_for_kernels() -> list[str]:
    """Returns what is missing to compile kernels for a GPU, e.g. ["triton", "a C compiler (gcc or clang)"]."""
    # Triton builds its launchers as C modules of Python when a kernel is first launched. Without a compiler or Python's
    # headers that launch would fail, in the first step of a run.
    missing: list[str] = []
    if not is_installed("triton"):
        missing.append("triton")
    if not _compiler():
        missing.append("a C compiler (gcc or clang)")
    if not _header().is_file():
        missing.append(f"Python's headers ({_header()})")
    return missing


def _compiler() -> str | None:
    """Returns the C compiler that Triton would call, if it is there."""
    if chosen := os.environ.get("CC"):
        return shutil.which(chosen)
    return shutil.which("gcc") or shutil.which("clang")


def _header() -> Path:
    """Returns the header of Python's C interface, where Triton looks for it."""
    # Debian has a scheme of its own for what the administrator installs; the headers are in the usual one.
    scheme = sysconfig.get_default_scheme()
    scheme = "posix_prefix" if scheme == "posix_local" else scheme
    return Path(sysconfig.get_paths(scheme)["include"]) / "Python.h"


class TorchKernels(Kernels):
    """See `redqueen.engine.kernels.Kernels`."""

    def rotation(self, cos: Tensor, sin: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Returns cos and sin [N, 1, D], rounded to `dtype` as in transformers."""
        return _per_head(cos, dtype), _per_head(sin, dtype)

    def take(self, x_NH: Tensor, index_M: Tensor) -> Tensor:
        return Take.apply(self.ops, x_NH, index_M)

    def gather(self, x: Tensor, row_MC: Tensor, kv_heads: int) -> Tensor:
        # Padding has row -1. Indexing would read the last row there, so it reads row 0, and zeros replace what it read.
        rows_MCHD = torch.where((row_MC < 0)[..., None, None], 0, x[row_MC.clamp(min=0)])
        return rows_MCHD.unflatten(2, (kv_heads, -1)).permute(2, 0, 3, 1, 4).contiguous()

    def scatter_(self, x_KMGCD: Tensor, row_MC: Tensor, out: Tensor, *, add: bool = False) -> None:
        present_MC = row_MC >= 0
        rows = x_KMGCD.permute(1, 3, 0, 2, 4).flatten(2, 3)[present_MC]
        out[row_MC[present_MC]] = rows + out[row_MC[present_MC]] if add else rows

    def softmax_(self, shared: Tensor, own: Tensor, scale: float) -> None:
        # `flatten` returns views of contiguous scores, so the writes below reach the caller's tensors.
        shared_XP = shared.flatten(0, 1)
        own_XC = own.flatten(0, 1)
        prompt = shared_XP.shape[1]
        places = own_XC.shape[1]
        late_CC = torch.ones(places, places, dtype=torch.bool, device=own.device).triu(1)
        own_XC.view(-1, places, places).masked_fill_(late_CC, float("-inf"))
        weights = (scale * torch.cat([shared_XP, own_XC], 1)).softmax(-1)
        shared_XP.copy_(weights[:, :prompt])
        own_XC.copy_(weights[:, prompt:])

    def softmax_backward_(self, d_shared: Tensor, d_own: Tensor, shared: Tensor, own: Tensor, scale: float) -> None:
        d_shared_XP, d_own_XC = d_shared.flatten(0, 1), d_own.flatten(0, 1)
        shared_XP, own_XC = shared.flatten(0, 1), own.flatten(0, 1)
        # For weights w = softmax(scale * scores), the gradient of the scores is scale * w * (dw - sum(w * dw)). The sum
        # runs over a row's prompt and its own sequence.
        along_X1 = (d_shared_XP * shared_XP).sum(1, keepdim=True) + (d_own_XC * own_XC).sum(1, keepdim=True)
        d_shared_XP.sub_(along_X1).mul_(shared_XP).mul_(scale)
        d_own_XC.sub_(along_X1).mul_(own_XC).mul_(scale)

    def scratch(self, logits_CV: Tensor) -> tuple[Tensor, ...]:
        """Returns two tensors of the logits' shape, in fp32."""
        return tuple(logits_CV.new_empty(logits_CV.shape, dtype=torch.float32) for _ in range(2))

    def token_shares_(
        self,
        logits_CV: Tensor,
        target_C: Tensor,
        temperature: float,
        logp_C: Tensor,
        scratch: tuple[Tensor, ...],
    ) -> Tensor:
        # The last chunk may be smaller than the scratch memory. Logits are taken relative to the row's largest, so no
        # power exceeds 1 and none overflows.
        bits_CV, mass_CV = (memory[: len(logits_CV)] for memory in scratch)
        bits_CV.copy_(logits_CV).mul_(1 / (temperature * NATS_PER_BIT))
        top_C1 = bits_CV.amax(-1, keepdim=True)
        chosen_C = bits_CV.gather(1, target_C[:, None])[:, 0] - top_C1[:, 0]
        torch.exp2(bits_CV.sub_(top_C1), out=mass_CV)
        total_C = mass_CV.sum(-1)
        logp_C.copy_((chosen_C - total_C.log2()) * NATS_PER_BIT)
        logits_CV.copy_(mass_CV)
        return total_C


def _per_head(half_ND: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns [N, 1, D] of `dtype` from [N, D/2], which both halves of a head share."""
    return half_ND.repeat(1, 2).to(dtype)[:, None]


# The kernels of a GPU in bf16 or fp16: torch's operations, compiled into one or two passes over memory each.

_LOG = logging.getLogger("redqueen")

_Function = TypeVar("_Function", bound=Callable[..., object])


def as_written(function: Callable[..., object]) -> Callable[..., object]:
    """Returns the function that computes on other devices than a GPU: `function` itself. A counter replaces it."""
    return function


def compiled_on_gpu(function: _Function, /, backend: Any = "inductor", device: str = "cuda") -> _Function:
    """Returns `function`, compiled when it is first called with tensors on a GPU; elsewhere it runs as it is.

    It also runs as it is where nothing can be compiled (`redqueen.engine.kernels.dispatch`).
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
    """See `redqueen.engine.kernels.Kernels`."""

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


VARIABLE = "REDQUEEN_KERNELS"
"""The environment variable that chooses: `torch` (torch's operations everywhere) or `auto` (the default)."""
WAYS = "REDQUEEN_WAYS"
"""The environment variable with which any device is treated as a GPU is: `gpu`. It is for tests."""

# Kernels hold no state, so one object of each is enough.
_TORCH: Kernels = TorchKernels()
_GPU: Kernels = GpuKernels()


@functools.cache
def _numba() -> Kernels:
    """Returns Numba's kernels. Only a CPU needs numba, so only there it is imported."""
    return importlib.import_module("redqueen.engine.kernels.numba_kernels").NumbaKernels()


def on_gpu(device: torch.device) -> bool:
    """Returns whether this device is computed for as a GPU is. Everything that differs on a GPU asks here.

    Meta tensors count as a GPU's: what would be launched on a GPU is counted on them.
    """
    return device.type in ("cuda", "meta") or os.environ.get(WAYS) == "gpu"


def flash_supports(tensor: Tensor) -> bool:
    """Returns whether a GPU's kernels can compute with `tensor`: flash attention takes 16 bits, from Ampere on."""
    if tensor.dtype not in (torch.bfloat16, torch.float16):
        return False
    return tensor.device.type != "cuda" or torch.cuda.get_device_capability(tensor.device) >= (8, 0)


def kernels_of(tensor: Tensor) -> Kernels:
    """Returns the kernels that compute with `tensor`.

    These are a GPU's for bf16 and fp16 on one, Numba's for bf16 and fp32 on a CPU, and torch's for everything else.
    Raises ModelError if REDQUEEN_KERNELS is neither `auto` nor `torch`.
    """
    # The variable is read on every call: tests and comparisons switch kernels within one process.
    choice = os.environ.get(VARIABLE) or "auto"
    if choice not in ("auto", "torch"):
        raise ModelError(f"{VARIABLE} is '{choice}': use auto or torch")
    if choice == "torch":
        return _TORCH
    if on_gpu(tensor.device):
        return _GPU if flash_supports(tensor) else _TORCH
    compiles = tensor.device.type == "cpu" and tensor.dtype in (torch.bfloat16, torch.float32)
    return _numba() if compiles else _TORCH
