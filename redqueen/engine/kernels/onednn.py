"""Weights packed once for many products by oneDNN, through the operators that torch has for compiled models.

These operators are private to torch, so their presence is checked. They take bf16 on a CPU only. A product with 32 rows
takes a quarter less time, one with 2048 rows a twentieth (Zen 4), for the memory of one more copy of the weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

# The number of rows in a product that the packing is laid out for. Decoding has about as many rows in a step.
_ROWS = 32
_OPERATORS = ("_is_mkldnn_bf16_supported", "_linear_pointwise", "_reorder_linear_weight")


def packs(device: torch.device, dtype: torch.dtype) -> bool:
    """Returns whether this machine can pack weights of this dtype on this device."""
    if device.type != "cpu" or dtype != torch.bfloat16 or not torch.backends.mkldnn.is_available():
        return False
    # torch may rename or drop a private operator in any release. Then nothing is packed, and products are plain ones.
    has_operators = all(hasattr(torch.ops.mkldnn, name) for name in _OPERATORS)
    return has_operators and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def pack(weight_OI: Tensor) -> Tensor:
    """Returns an opaque tensor for `linear`. Call it only if `packs` is true for the weight's device and dtype."""
    return torch.ops.mkldnn._reorder_linear_weight(weight_OI, _ROWS)


def packed(weight_OI: Tensor) -> Tensor | None:
    """Returns `pack(weight_OI)`, or None if `packs` is false."""
    return pack(weight_OI) if packs(weight_OI.device, weight_OI.dtype) else None


def linear(x_NI: Tensor, weight: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Returns x W^T + b [N, O] for a weight that `pack` returned."""
    return torch.ops.mkldnn._linear_pointwise(x_NI, weight, bias_O, "none", [], "")
