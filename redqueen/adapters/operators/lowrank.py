"""What the operators share: the singular components of a low-rank update, and the way back to factors.

For a @ b of rank r the SVD costs two thin QRs and one r×r SVD: a = Qa Ra and bᵀ = Qb Rb give
a @ b = Qa (Ra Rbᵀ) Qbᵀ. The in×out matrix is never built. Everything runs in fp32 on the CPU, whatever the
parents' dtype and device: births are rare and small, and the child then does not depend on where its parents
happen to live.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from redqueen.adapters.factors import Adapter, Factors

Operator = Callable[[Sequence[Adapter], torch.Generator], Adapter]
"""(parents, fitter first; CPU generator) -> child."""


class Components(NamedTuple):
    """The singular components of one update, strongest first: a @ b = u @ diag(s) @ vt.

    u [in, n], s [n], vt [n, out]; u's columns and vt's rows are orthonormal. n is the numerical rank: at most
    min(in, r, out), and 0 for a zero update.
    """

    u: Tensor
    s: Tensor
    vt: Tensor


def working(factors: Factors) -> Factors:
    """The same factors in fp32 on the CPU, without history. May share the original's storage: read only."""
    return Factors(factors.a.detach().to("cpu", torch.float32), factors.b.detach().to("cpu", torch.float32))


def weighted_sum(terms: Sequence[tuple[float, Factors]]) -> Factors:
    """Factors of Σ weight · a @ b, exact, with the ranks added up: a [in, Σr], b [Σr, out]."""
    return Factors(torch.cat([f.a for _, f in terms], dim=1), torch.cat([weight * f.b for weight, f in terms], dim=0))


def components(factors: Factors) -> Components:
    """The singular components of a @ b that are above rounding error. `factors` are fp32 on the CPU."""
    qa, ra = torch.linalg.qr(factors.a)
    qb, rb = torch.linalg.qr(factors.b.T)
    core = ra @ rb.T
    left, s, right = torch.linalg.svd(core, full_matrices=False)
    # Rounding error is relative to the factors' own size: a @ b may cancel to nothing.
    noise = torch.finfo(s.dtype).eps * max(core.shape) * torch.linalg.norm(ra) * torch.linalg.norm(rb)
    n = int((s > noise).sum())
    u, vt = qa @ left[:, :n], right[:n] @ qb.T
    # An SVD leaves each pair's sign open; noise added in this basis must not depend on the LAPACK at hand.
    peaks = u.gather(0, u.abs().argmax(dim=0, keepdim=True)) if n else u[:1]
    signs = torch.where(peaks < 0, -1.0, 1.0)
    return Components(u * signs, s[:n], vt * signs.T)


def to_factors(found: Components, reader: Tensor, like: Factors) -> Factors:
    """Factors of the update's best approximation of `like`'s rank, balanced: √s on both sides.

    A slot without a component gets b = 0 and keeps `reader`'s column in a. With both sides zero no gradient
    would ever reach the slot; this way an update of zero stays what LoRA starts from.

    Args:
        found: components, strongest first; those beyond the rank are dropped.
        reader: fp32 a to fall back on, [in, r].
        like: gives rank, dtypes and devices.

    Returns:
        New tensors: a [in, r], b [r, out].
    """
    rank = like.a.shape[1]
    n = min(rank, found.s.shape[0])
    root = found.s[:n].sqrt()
    a, b = reader.clone(), torch.zeros(like.b.shape, dtype=torch.float32)
    a[:, :n] = found.u[:, :n] * root
    b[:n] = root[:, None] * found.vt[:n]
    return Factors(a.to(like.a.device, like.a.dtype), b.to(like.b.device, like.b.dtype))


def copied(factors: Factors) -> Factors:
    """The same values, bit for bit, in new storage."""
    return Factors(factors.a.detach().clone(), factors.b.detach().clone())


def by_site(parents: Sequence[Adapter], make: Callable[[str, list[Factors]], Factors]) -> Adapter:
    """The child made site by site, in the order of names; its mapping keeps the first parent's order."""
    with torch.no_grad():
        made = {site: make(site, [parent[site] for parent in parents]) for site in sorted(parents[0])}
    return {site: made[site] for site in parents[0]}


def first_of(parents: Sequence[Adapter]) -> list[Adapter]:
    """The fittest parent alone, checked.

    Raises:
        ValueError: there is no parent, or `checked` refuses it.
    """
    if not parents:
        raise ValueError("an operator needs a parent")
    return checked(parents[:1])


def two_of(parents: Sequence[Adapter]) -> list[Adapter]:
    """The two parents of a crossover, checked.

    Raises:
        ValueError: there are not exactly two, or `checked` refuses them.
    """
    if len(parents) != 2:
        raise ValueError(f"a crossover needs two parents, not {len(parents)}")
    return checked(parents)


def checked(parents: Sequence[Adapter]) -> list[Adapter]:
    """The parents, if every one is finite and has the first one's sites, shapes and dtypes.

    Raises:
        ValueError: they differ, or a site's a [in, r] and b [r, out] disagree about r, or a value is NaN or
            infinite: a diverged parent must not breed.
    """
    first = parents[0]
    for parent in parents:
        if parent.keys() != first.keys():
            raise ValueError(f"parents differ in sites: {sorted(parent.keys() ^ first.keys())}")
        for site, f in parent.items():
            if f.a.ndim != 2 or f.b.ndim != 2 or f.a.shape[1] != f.b.shape[0]:
                raise ValueError(f"{site}: a {tuple(f.a.shape)} and b {tuple(f.b.shape)} are no update")
            if (f.a.shape, f.b.shape, f.a.dtype, f.b.dtype) != _form(first[site]):
                raise ValueError(f"{site}: parents differ in rank, shape or dtype")
            if not (f.a.isfinite().all() and f.b.isfinite().all()):
                raise ValueError(f"{site}: a parent's factors are not finite")
    return list(parents)


def _form(f: Factors) -> tuple[torch.Size, torch.Size, torch.dtype, torch.dtype]:
    return f.a.shape, f.b.shape, f.a.dtype, f.b.dtype


# Explicit dtypes: loading a model may have changed torch's default, and the draws must not depend on it.


def normals(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Standard normal fp32 numbers."""
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float32)


def uniforms(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Numbers from [0, 1), fp32."""
    return torch.rand(tuple(shape), generator=generator, dtype=torch.float32)


def uniform(generator: torch.Generator) -> float:
    """One number from [0, 1)."""
    return float(torch.rand((), generator=generator, dtype=torch.float64))


def integer(bound: int, generator: torch.Generator) -> int:
    """One of 0 .. bound - 1."""
    return int(torch.randint(bound, (), generator=generator))
