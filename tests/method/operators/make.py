"""Small adapters, the dense update that the operators never build, and how far rounding may take one from the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch

from redqueen.engine.adapters import Adapter, Factors
from redqueen.method.operators.lowrank import EPSILON

MODULES = ("self_attn.q_proj", "mlp.up_proj")
SITES = tuple(f"model.layers.{layer}.{module}" for layer, module in product(range(6), MODULES))
EPSILON_64 = torch.finfo(torch.float64).eps


def adapter(
    seed: int,
    n_in: int = 8,
    n_out: int = 6,
    rank: int = 3,
    dtype: torch.dtype = torch.float32,
    sites: Sequence[str] = SITES,
) -> dict[str, Factors]:
    g = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g).to(dtype)

    return {site: Factors(draw(n_in, rank), draw(rank, n_out)) for site in sites}


def zero(seed: int, n_in: int = 8, n_out: int = 6, rank: int = 3) -> dict[str, Factors]:
    """An untrained adapter: b is zero."""
    return {s: Factors(f.a, torch.zeros_like(f.b)) for s, f in adapter(seed, n_in, n_out, rank).items()}


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dense(factors: Factors) -> torch.Tensor:
    """ΔWᵀ in fp64."""
    return factors.a.double() @ factors.b.double()


def truncated(update: torch.Tensor, rank: int) -> torch.Tensor:
    """The best approximation of `rank` (Eckart-Young)."""
    u, s, vt = torch.linalg.svd(update, full_matrices=False)
    return (u[:, :rank] * s[:rank]) @ vt[:rank]


def same(one: Adapter, other: Adapter) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(
        torch.equal(one[s].a, other[s].a) and torch.equal(one[s].b, other[s].b) for s in one
    )


def size(terms: Sequence[Factors], weights: Sequence[float] | None = None) -> float:
    """‖[a ..]‖ ‖[w b ..]‖: what rounding errors of Σ w a @ b are relative to, for the sum itself may cancel."""
    weights = weights or [1.0] * len(terms)
    readers = sum(float(f.a.double().square().sum()) for f in terms)
    writers = sum(w * w * float(f.b.double().square().sum()) for w, f in zip(weights, terms, strict=True))
    return (readers * writers) ** 0.5


def truncation_gain(update: torch.Tensor, rank: int) -> float:
    """By how much an error of `update` may grow in its best approximation of `rank`, to first order.

    In the singular basis a perturbation's entry (i, j) with i <= rank < j enters with σi² / (σi² - σj²), its mirror
    image with σi σj / (σi² - σj²); together at most σr / (σr - σr+1), with σr the smallest that stays.
    """
    s = torch.linalg.svdvals(update)
    if rank >= len(s):
        return 1.0
    return float(s[rank - 1] / (s[rank - 1] - s[rank]))


def rounding(terms: Sequence[Factors], weights: Sequence[float] | None = None) -> float:
    """How far (Frobenius norm) an operator's child may be from the same formula in fp64, for well-conditioned parents.

    An operator computes in fp64, and its child is rounded to fp32.
    """
    return 8 * EPSILON * size(terms, weights)


def assert_close(got: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> None:
    """In the Frobenius norm."""
    assert got.shape == wanted.shape
    distance = float((got - wanted).norm())
    assert distance <= tolerance, f"{distance:.3g} apart, {tolerance:.3g} allowed"
