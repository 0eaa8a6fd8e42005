"""One member's weights as values: low-rank factors for each site. New ones, noise around them, and their distance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from redqueen.base import streams


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


# New adapters: PEFT's initialisation, and noise around a given adapter.


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


# The relative Frobenius distance of two adapters' updates, computed from the factors alone.


def relative_distance(x: Adapter, y: Adapter) -> float:
    """Returns ‖ΔX - ΔY‖ / max(‖ΔX‖, ‖ΔY‖), with norms over all sites together: in [0, 2], and 0 for two zero updates.

    The inner products are those of the factors, <a b, a' b'> = Σ (aᵀ a') ∘ (b b'ᵀ), so ΔW is never built.
    Rounding leaves an absolute error of about 1e-8. The scaling s is common to a population and cancels.

    Raises ValueError if the adapters differ in sites.
    """
    if x.keys() != y.keys():
        raise ValueError(f"adapters differ in sites: {sorted(x.keys() ^ y.keys())}")
    xx = xy = yy = 0.0
    for site, f in x.items():
        g = y[site]
        rank = f.a.shape[1]
        # One Gram matrix of both adapters' factors holds all three inner products. It is computed in fp64, because
        # close adapters leave a small difference of large numbers: fp32 would see distances below about 1e-3 as noise.
        readers = torch.cat([f.a, g.a], dim=1).to("cpu", torch.float64)
        writers = torch.cat([f.b, g.b], dim=0).to("cpu", torch.float64)
        gram = (readers.T @ readers) * (writers @ writers.T)
        xx += float(gram[:rank, :rank].sum())
        xy += float(gram[:rank, rank:].sum())
        yy += float(gram[rank:, rank:].sum())
    # Rounding may leave a tiny negative square.
    largest = max(xx, yy)
    return sqrt(max(0.0, xx + yy - 2.0 * xy) / largest) if largest > 0.0 else 0.0
