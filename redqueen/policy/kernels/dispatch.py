"""The kernels: what the decoder computes between its products. Only this module chooses an implementation.

Everything else that depends on the device asks `on_gpu`. REDQUEEN_WAYS=gpu takes a GPU's ways on a CPU, to test them.

Norms are computed in fp32, products in the base's dtype, as in transformers' Llama, Mistral, Qwen2 and Qwen3.
Shape suffixes: N rows, H hidden size, D head size, F intermediate size, K kv heads, M sequences, G query heads of each
kv head, C places of a sequence (or rows of a chunk, with V), P tokens of a prompt, X = K x M x G x C, V vocabulary.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from redqueen.errors import ModelError
from redqueen.policy.kernels.flash import Varlen
from redqueen.policy.kernels.gpu_kernels import GpuKernels
from redqueen.policy.kernels.torch_kernels import TorchKernels

VARIABLE = "REDQUEEN_KERNELS"
"""The environment variable that chooses: `torch` (torch's operations everywhere) or `auto` (the default)."""
WAYS = "REDQUEEN_WAYS"
"""The environment variable with which any device is treated as a GPU is: `gpu`. It is for tests."""

Rotation = tuple[Tensor, Tensor]
"""Rotary embeddings of a batch's positions, cos and sin, as a kernel's `heads` reads them."""


class Kernels(Protocol):
    """One implementation. A method without an underscore at its end is differentiable in all inputs but the weights."""

    @property
    def compiled(self) -> bool:
        """Whether these are Numba's kernels, which have a decoding step of their own."""
        ...

    @property
    def varlen(self) -> Varlen | None:
        """Attention over sequences of any lengths in one call; None where products over padded ones are taken."""
        ...

    @property
    def logit_rows(self) -> int:
        """The number of tokens that `score_` should get at a time: their logits are held at once."""
        ...

    def rotation(self, cos: Tensor, sin: Tensor, dtype: torch.dtype) -> Rotation:
        """Prepares cos and sin [N, D/2] (fp32) for `heads` of `dtype`, once for all layers."""
        ...

    def norm(self, x_NH: Tensor, y_NH: Tensor | None, weight_H: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """Returns the residual stream s = x + y (x without y) and w * s / rms(s) (Zhang and Sennrich 2019).

        Continue from the returned stream, not from `x`: the two gradients are then summed in fp32 before rounding.
        """
        ...

    def heads(
        self,
        qkv_NHD: Tensor,
        kv_heads: int,
        norm_q: Tensor | None,
        norm_k: Tensor | None,
        eps: float,
        rotation: Rotation,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns q, k and v [N, heads, D] of `qkv`, which holds their heads one after the other.

        q and k are normed, if there are weights, and rotated (Su et al. 2021) in Llama's halves: (x1, x2) becomes
        (x1 cos - x2 sin, x2 cos + x1 sin).
        """
        ...

    def swiglu(self, both_N2F: Tensor) -> Tensor:
        """Returns silu(gate) * up [N, F] for gate and up side by side in [N, 2F] (Shazeer 2020)."""
        ...

    def gather(self, x: Tensor, row_MC: Tensor, kv_heads: int) -> Tensor:
        """Returns the rows `row_MC` of x [N, heads, D] as [K, M, G, C, D], with zeros where the row is -1."""
        ...

    def scatter_(self, x_KMGCD: Tensor, row_MC: Tensor, out: Tensor, *, add: bool = False) -> None:
        """Inverts `gather`: writes to the rows `row_MC` of `out` [N, heads, D], or adds to them."""
        ...

    def softmax_(self, shared: Tensor, own: Tensor, scale: float) -> None:
        """Turns scores into attention weights, in place: the softmax of scale x scores, masked causally.

        A row's scores are those over the prompt [K, M x G x C, P] and those over its own sequence [K x M, G x C, C].
        """
        ...

    def softmax_backward_(self, d_shared: Tensor, d_own: Tensor, shared: Tensor, own: Tensor, scale: float) -> None:
        """Turns the gradients of the weights into those of the scores, in place."""
        ...

    def take(self, x_NH: Tensor, index_M: Tensor) -> Tensor:
        """Returns the rows `index_M` of x. A row may be taken more than once; its gradients are then summed."""
        ...

    def add_products_(self, out: Tensor, left: Tensor, right: Tensor, scales: Sequence[float]) -> None:
        """Adds scale x left @ right to `out`, for each of the matrices that are stacked in all three. Not rounded to
        the dtype of the factors before it is added, if `out` is wider and the device can do so.
        """
        ...

    def score_memory(self, weight_VH: Tensor, rows: int) -> tuple[Tensor, ...]:
        """Returns memory that `score_` reuses for every chunk. New memory each time would cost 10 % more."""
        ...

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
        """Writes log p(target | hidden) under the output matrix, in fp32, and its gradient for `hidden`."""
        ...


# Kernels hold no state, so one object of each is enough.
_TORCH: Kernels = TorchKernels()
_GPU: Kernels = GpuKernels()


@functools.cache
def _numba() -> Kernels:
    """Returns Numba's kernels. Only a CPU needs numba, so only there it is imported."""
    return importlib.import_module("redqueen.policy.kernels.numba_kernels").NumbaKernels()


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
