"""Weights packed once for many products: oneDNN's, by the operators that torch has for compiled models.

Those are private, so they are looked for. bf16 on a CPU only. A product with 32 rows takes a quarter less, one with
2048 rows a twentieth (Zen 4), for the memory of one more copy of the weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ROWS = 32  # the rows of a product that the packing is laid out for
_OPERATORS = ("_is_mkldnn_bf16_supported", "_linear_pointwise", "_reorder_linear_weight")


def packs(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether weights of this kind can be packed here."""
    if device.type != "cpu" or dtype != torch.bfloat16 or not torch.backends.mkldnn.is_available():
        return False
    found = all(hasattr(torch.ops.mkldnn, name) for name in _OPERATORS)
    return found and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def pack(weight_OI: Tensor) -> Tensor:
    """An opaque tensor for `linear`, where `packs` allows it."""
    return torch.ops.mkldnn._reorder_linear_weight(weight_OI, _ROWS)


def packed(weight_OI: Tensor) -> Tensor | None:
    """The same; None where it is not to be had."""
    return pack(weight_OI) if packs(weight_OI.device, weight_OI.dtype) else None


def linear(x_NI: Tensor, weight: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """x W^T + b, [N, O], by a weight that `pack` made."""
    return torch.ops.mkldnn._linear_pointwise(x_NI, weight, bias_O, "none", [], "")
