"""Which kernels compute with a tensor. Only this module chooses an implementation.

Everything else that depends on the device asks `on_gpu`. REDQUEEN_WAYS=gpu takes a GPU's ways on a CPU, to test them.
"""

from __future__ import annotations

import functools
import importlib
import os

import torch
from torch import Tensor

from redqueen.engine.kernels.interface import Kernels
from redqueen.engine.kernels.torch_kernels import GpuKernels, TorchKernels
from redqueen.errors import ModelError

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
