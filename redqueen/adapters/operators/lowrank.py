"""The singular components of a low-rank update, and the way back to factors, without the in×out matrix.

For a @ b of rank r everything that an operator decides is r×r algebra on the Gram matrices aᵀa and b bᵀ: with
aᵀa = Va diag(λ) Vaᵀ the columns of a Va λ^(-1/2) are orthonormal, likewise for b, and one r×r SVD of
λa^(1/2) Vaᵀ Vb λb^(1/2) gives the components. So an update is read twice, once for the Gram matrices and once to be
multiplied with the r×r result, where a QR would pass over it r times. Squaring a factor squares its condition number;
in fp64 what is left is about fp32's precision (sqrt(eps64) = 1.5e-8), so ill-conditioned factors lose nothing against
a QR in fp32. Everything runs on the CPU, whatever the parents' dtype and device: the child then does not depend on
where its parents happen to live.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from redqueen.adapters.factors import Factors

EPSILON = torch.finfo(torch.float32).eps
# How much larger than its result a product's terms may be before it is computed in fp64: fp32 leaves 2^-18 then.
FP32_GROWTH = 64.0
# Rows widened to fp64 at a time: what fits into a core's cache, and memory that is used again.
GRAM_ROWS = 2048


class Update(NamedTuple):
    """A low-rank update a @ b on the CPU, and what its r×r algebra needs.

    a [in, r] and b [r, out] are fp32; gram_a = aᵀa and gram_b = b bᵀ [r, r] and probe [r] (see `components`) fp64.
    """

    a: Tensor
    b: Tensor
    gram_a: Tensor
    gram_b: Tensor
    probe: Tensor


class Components(NamedTuple):
    """The singular components of an update, strongest first, as combinations of its factors.

    u = a @ p and vt = q @ b, with p [r, n], s [n], q [n, r], fp64: the update is u @ diag(s) @ vt, the columns of u
    and the rows of vt orthonormal. n is the numerical rank: at most min(in, r, out), and 0 for a zero update.
    """

    p: Tensor
    s: Tensor
    q: Tensor


def update(terms: Sequence[Factors]) -> Update:
    """Σ a @ b with the ranks added up: a [in, Σr], b [Σr, out]. One term may share its storage: read only."""
    one = terms[0] if len(terms) == 1 else None
    a = one.a.float() if one else torch.cat([f.a.float() for f in terms], dim=1)
    b = one.b.float() if one else torch.cat([f.b.float() for f in terms], dim=0)
    return Update(a, b, gram(a), gram(b.T), _probe(a))


def gram(tall: Tensor) -> Tensor:
    """tallᵀ tall in fp64 for an fp32 tensor [n, r]."""
    total = torch.zeros(tall.shape[1], tall.shape[1], dtype=torch.float64)
    for part in tall.split(GRAM_ROWS):
        wide = part.double()
        total += wide.T @ wide
    return total


def _probe(tall: Tensor) -> Tensor:
    """Σ √i tall_i (i from 1), [r], in fp64 as `gram`: nearly parallel columns are taken apart with its help."""
    root_N = torch.arange(1, len(tall) + 1, dtype=torch.float64).sqrt()
    total = torch.zeros(tall.shape[1], dtype=torch.float64)
    for root, part in zip(root_N.split(GRAM_ROWS), tall.split(GRAM_ROWS), strict=True):
        total += root @ part.double()
    return total


def components(gram_a: Tensor, gram_b: Tensor, probe: Tensor) -> Components:
    """The singular components that are above fp32's rounding error.

    An SVD leaves each pair's sign open; what is drawn in this basis must not depend on the LAPACK at hand. So the
    signs are such that Σ √i u_i > 0 (i from 1; unequal weights, because plain sums are often zero by symmetry).

    Args:
        gram_a, gram_b: the factors' Gram matrices, fp64 [r, r].
        probe: Σ √i a_i, fp64 [r].
    """
    root_a, inverse_a = _root(gram_a)
    root_b, inverse_b = _root(gram_b)
    left, s, right = torch.linalg.svd(root_a.T @ root_b, full_matrices=False)
    # Rounding error is relative to the factors' own size: a @ b may cancel to nothing.
    size = (gram_a.trace() * gram_b.trace()).sqrt()
    n = int((s > EPSILON * gram_a.shape[0] * size).sum())
    p, q = inverse_a @ left[:, :n], right[:n] @ inverse_b.T
    signs = torch.where(probe @ p < 0, -1.0, 1.0).double()
    return Components(p * signs, s[:n], signs[:, None] * q)


def rebuilt(own: Update, found: Components, reader: Tensor) -> Factors:
    """Factors of the best approximation of u diag(s) vt with `reader`'s rank, balanced: √s on both sides.

    Args:
        own: the update that `found`'s p and q combine.
        found: components, strongest first; those beyond the rank are dropped.
        reader: see `mixed`.
    """
    rank = reader.shape[1]
    root = found.s[:rank].sqrt()
    return mixed(own, found.p[:, :rank] * root, root[:, None] * found.q[:rank], reader)


def weighted_sum(own: Update, weights: Sequence[float], reader: Tensor) -> Factors:
    """The best rank-r approximation (Eckart-Young) of Σ weight · a @ b, as `rebuilt` gives it.

    Args:
        own: `update` of the terms, which all have `reader`'s rank.
        weights: one for each term.
        reader: see `mixed`.
    """
    each = torch.tensor(weights, dtype=torch.float64).repeat_interleave(reader.shape[1])
    p, s, q = components(own.gram_a, each[:, None] * own.gram_b * each, own.probe)
    return rebuilt(own, Components(p, s, q * each), reader)


def mixed(own: Update, left: Tensor, right: Tensor, reader: Tensor) -> Factors:
    """Factors a @ left and right @ b, filled up to `reader`'s rank.

    A rank slot that nothing is left for gets b = 0 and keeps `reader`'s column in a. With both sides zero no gradient
    would ever reach it; this way an update of zero stays what LoRA starts from.

    Args:
        own: the update.
        left, right: fp64 [r, n] and [n, r], n at most `reader`'s rank.
        reader: a to fall back on, [in, rank].

    Returns:
        New tensors, fp32 or fp64: a [in, rank], b [rank, out].
    """
    n, rank = left.shape[1], reader.shape[1]
    a = product(own.a, left, fits_fp32(own.gram_a, left))
    b = product(right, own.b, fits_fp32(own.gram_b, right.T))
    if n == rank:
        return Factors(a, b)
    return Factors(torch.cat([a, reader[:, n:]], dim=1), torch.cat([b, b.new_zeros(rank - n, b.shape[1])]))


def copied(factors: Factors) -> Factors:
    """The same values, bit for bit, in new storage."""
    return Factors(factors.a.clone(), factors.b.clone())


def product(x: Tensor, y: Tensor, narrow: bool) -> Tensor:
    """x @ y, in fp32 if `narrow` and in fp64 otherwise."""
    return x.float() @ y.float() if narrow else x.double() @ y.double()


def fits_fp32(own_gram: Tensor, coefficients: Tensor) -> bool:
    """Whether a product of `coefficients` [r, n] with a factor of this Gram matrix loses little in fp32: its terms are
    not much larger than the result, as they are where nearly parallel columns are taken apart."""
    result = (coefficients * (own_gram @ coefficients)).sum()
    return bool(own_gram.trace() * coefficients.square().sum() <= FP32_GROWTH**2 * result)


def _root(own_gram: Tensor) -> tuple[Tensor, Tensor]:
    """R [r, k] and I [r, k] with gram = R Rᵀ and Iᵀ gram I = 1, without directions below fp32's rounding error."""
    values, vectors = torch.linalg.eigh(own_gram)
    kept = values > EPSILON**2 * own_gram.trace()
    root, vectors = values[kept].sqrt(), vectors[:, kept]
    return vectors * root, vectors / root
