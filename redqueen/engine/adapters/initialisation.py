"""New adapters: PEFT's initialisation, and noise around a given adapter."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from redqueen.base import streams
from redqueen.engine.adapters.factors import Adapter, Factors


def generator(*purpose: str | int) -> torch.Generator:
    """Returns a CPU generator for this purpose (`redqueen.base.streams`): noise is the same on every device."""
    # A stream's key has 128 bits, and torch takes at most 64, one of them for the sign.
    return torch.Generator().manual_seed(streams.key(*purpose) % 2**63)


def fresh(shapes: Mapping[str, tuple[int, int]], rank: int, generator: torch.Generator) -> dict[str, Factors]:
    """Returns a new adapter: a as PEFT draws it, b zero, so ΔW = 0. `shapes` are (in, out) by site."""
    adapter: dict[str, Factors] = {}
    for name, (fan_in, fan_out) in shapes.items():
        a = fresh_columns(fan_in, rank, generator)
        adapter[name] = Factors(a, torch.zeros(rank, fan_out))
    return adapter


def fresh_columns(fan_in: int, count: int, generator: torch.Generator) -> Tensor:
    """Returns `count` columns of a new a, [in, count]: uniform within ±1/√in, PEFT's Kaiming-uniform with a = √5."""
    return (torch.rand(fan_in, count, generator=generator) * 2 - 1) / fan_in**0.5


def perturb(adapter: Adapter, share: float, generator: torch.Generator) -> dict[str, Factors]:
    """Returns `adapter` plus Gaussian noise of `share` times each tensor's own standard deviation.

    A b of zero, as in a new adapter, gets noise of `share` times a's deviation.
    """

    def noisy(tensor: Tensor, like: Tensor) -> Tensor:
        # Without a correction for small samples, which would divide by zero for a tensor with a single entry.
        return tensor + share * like.std(correction=0) * torch.randn(tensor.shape, generator=generator)

    changed: dict[str, Factors] = {}
    for name, factors in adapter.items():
        # With b = 0 every a is the same function, so members that start from a new adapter would all write alike.
        like = factors.b if factors.b.any() else factors.a
        changed[name] = Factors(noisy(factors.a, factors.a), noisy(factors.b, like))
    return changed
