"""A member's weights: one pair of low-rank factors for each site."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Factors:
    """The low-rank update of one linear layer: ΔWᵀ = s · a @ b, with s the adapter's fixed scaling.

    PEFT's `lora_A.weight` is `a` transposed, its `lora_B.weight` is `b` transposed.
    """

    a: Tensor
    """[in, r], the side that reads the layer's input."""
    b: Tensor
    """[r, out], the side that writes the layer's output; zero in an adapter that has not been trained."""


Adapter = Mapping[str, Factors]
"""Factors by site name, such as "model.layers.3.self_attn.q_proj"."""
