"""The singular components of a low-rank update, and the way back to factors, without the in×out matrix.

For a @ b of rank r everything that an operator decides is r×r algebra on the Gram matrices aᵀa and b bᵀ: with
aᵀa = Va diag(λ) Vaᵀ the columns of a Va λ^(-1/2) are orthonormal, likewise for b, and one r×r SVD of
λa^(1/2) Vaᵀ Vb λb^(1/2) gives the components. So an update is read twice, once for the Gram matrices and once to be
multiplied with the r×r result, where a QR would pass over it r times. Everything runs on the CPU, whatever the parents'
dtype and device, so that the child does not depend on the device of its parents.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor

from redqueen.engine.adapters.factors import Factors
from redqueen.method.operators.balance import equal_split, scale, shortest, split, step_length

EPSILON = torch.finfo(torch.float32).eps
# How much larger than its result a product's terms may be before it is computed in fp64. At this limit fp32 leaves a
# relative error of 2^-18.
FP32_GROWTH = 64.0
# By how much a child's step may be longer than its parents' before their split is given up.
TOO_FAST = 0.05
# Rows that are widened to fp64 at a time. A part fits into a core's cache, and its memory is used for the next one.
GRAM_ROWS = 2048


class Update(NamedTuple):
    """A low-rank update a @ b on the CPU, and what its r×r algebra needs."""

    a: Tensor
    """[in, r], fp32."""
    b: Tensor
    """[r, out], fp32."""
    gram_a: Tensor
    """aᵀa, [r, r], fp64."""
    gram_b: Tensor
    """b bᵀ, [r, r], fp64."""
    sign_weights: Tensor
    """Σ √i a_i over the rows of a (i from 1), [r], fp64: see `components`."""
    step: float
    """The mean of the terms' `step_length`: how fast they learn."""


class Components(NamedTuple):
    """The singular components of an update, strongest first, as combinations of its factors.

    With u = a @ p and vt = q @ b the update is u @ diag(s) @ vt, the columns of u and the rows of vt orthonormal. n is
    the numerical rank: at most min(in, r, out), and 0 for a zero update.
    """

    p: Tensor
    """[r, n], fp64."""
    s: Tensor
    """[n], fp64."""
    q: Tensor
    """[n, r], fp64."""


def update(terms: Sequence[Factors]) -> Update:
    """Returns Σ a @ b with the ranks added up: a [in, Σr], b [Σr, out].

    The result of a single term may share its storage, so callers only read it.
    """
    single = terms[0] if len(terms) == 1 else None
    a = single.a.float() if single else torch.cat([f.a.float() for f in terms], dim=1)
    b = single.b.float() if single else torch.cat([f.b.float() for f in terms], dim=0)
    gram_a, gram_b = gram(a), gram(b.T)
    # Each term has its own share of the diagonals, whose sums are its factors' squared norms.
    squares_a = gram_a.diagonal().reshape(len(terms), -1).sum(1).tolist()
    squares_b = gram_b.diagonal().reshape(len(terms), -1).sum(1).tolist()
    steps = [step_length(x, y, a.shape[0], b.shape[1]) for x, y in zip(squares_a, squares_b, strict=True)]
    return Update(a, b, gram_a, gram_b, _sign_weights(a), fmean(steps))


def gram(tall: Tensor) -> Tensor:
    """Returns tallᵀ tall in fp64 for an fp32 tensor [n, r]."""
    # Gram matrices are fp64 because a Gram matrix squares the condition number of its factor. In fp64 about fp32's
    # precision is left (sqrt(eps64) = 1.5e-8), so ill-conditioned factors lose nothing against a QR in fp32.
    total = torch.zeros(tall.shape[1], tall.shape[1], dtype=torch.float64)
    for rows in tall.split(GRAM_ROWS):
        wide = rows.double()
        total += wide.T @ wide
    return total


def _sign_weights(tall: Tensor) -> Tensor:
    """Returns Σ √i tall_i over the rows (i from 1), [r], fp64."""
    # fp64 as in `gram`: where nearly parallel columns are separated, their sums almost cancel.
    root_N = torch.arange(1, len(tall) + 1, dtype=torch.float64).sqrt()
    total = torch.zeros(tall.shape[1], dtype=torch.float64)
    for root, rows in zip(root_N.split(GRAM_ROWS), tall.split(GRAM_ROWS), strict=True):
        total += root @ rows.double()
    return total


def components(gram_a: Tensor, gram_b: Tensor, sign_weights: Tensor) -> Components:
    """Returns the singular components that are above fp32's rounding error, from what `Update` holds.

    Their signs are such that Σ √i u_i > 0 over the rows of u (i from 1).
    """
    root_a, inverse_a = _root(gram_a)
    root_b, inverse_b = _root(gram_b)
    left, s, right = torch.linalg.svd(root_a.T @ root_b, full_matrices=False)
    # Rounding error is relative to the size of the factors, not of the product: a @ b may cancel to nothing.
    size = (gram_a.trace() * gram_b.trace()).sqrt()
    n = int((s > EPSILON * gram_a.shape[0] * size).sum())
    p = inverse_a @ left[:, :n]
    q = right[:n] @ inverse_b.T
    # An SVD leaves the sign of each pair open, and numbers are drawn in this basis, so without a rule a child would
    # depend on the LAPACK in use. The weights are unequal, because plain sums are often zero by symmetry.
    signs = torch.where(sign_weights @ p < 0, -1.0, 1.0).double()
    return Components(p * signs, s[:n], signs[:, None] * q)


def rebuilt(source: Update, parts: Components, reader: Tensor) -> Factors:
    """Returns factors of the best approximation of u diag(s) vt with `reader`'s rank, that learn as fast as the terms.

    `parts` are components of `source`, with as many as are kept in front. If there are fewer than the rank, a also
    reads along directions of the first term's a that carry nothing yet. `reader` is the first parent's a; a child
    without a component keeps it as it is. The factors are new tensors, fp32 or fp64: a [in, rank], b [rank, out].
    """
    rank = reader.shape[1]
    p = parts.p[:, :rank]
    s = parts.s[:rank]
    q = parts.q[:rank]
    fan_in, fan_out = source.a.shape[0], source.b.shape[1]
    if not len(s):
        return Factors(reader.float().clone(), source.b.new_zeros(rank, fan_out))
    read = p.T @ source.gram_a
    before, after, unused = split(read.split(rank, dim=1), s)
    # A child that is much larger than its parents is too fast in their split, however a and b are stretched.
    least = shortest(float(before.square().sum()), float(after.square().sum()), fan_in, fan_out)
    too_fast = least > (1 + TOO_FAST) * source.step
    if too_fast:
        before, after, unused = equal_split(s, rank)
    left, right = p @ before, after @ q
    # With a and b both zero no gradient would ever reach a place of the rank. So the first term's a fills what the
    # child's components leave free. No row of b writes there, so the product stays the same.
    if len(s) < rank:
        left[:rank] += unused
    a_squared = float((left * (source.gram_a @ left)).sum())
    c = 1.0 if too_fast else scale(a_squared, float(after.square().sum()), fan_in, fan_out, source.step)
    left, right = left * c, right / c
    return Factors(
        product(source.a, left, fits_fp32(source.gram_a, left)),
        product(right, source.b, fits_fp32(source.gram_b, right.T)),
    )


def weighted_sum(source: Update, weights: Sequence[float], reader: Tensor) -> Factors:
    """Returns the best rank-r approximation (Eckart-Young) of Σ weight · a @ b, as `rebuilt` gives it.

    `source` is the `update` of the terms, which all have `reader`'s rank; there is one weight for each term.
    """
    # A weight scales b, so it enters the Gram matrix of b from both sides; a negative one needs no special case.
    column_weights = torch.tensor(weights, dtype=torch.float64).repeat_interleave(reader.shape[1])
    p, s, q = components(source.gram_a, column_weights[:, None] * source.gram_b * column_weights, source.sign_weights)
    return rebuilt(source, Components(p, s, q * column_weights), reader)


def copied(factors: Factors) -> Factors:
    """Returns the same values, bit for bit, in new storage."""
    return Factors(factors.a.clone(), factors.b.clone())


def product(x: Tensor, y: Tensor, narrow: bool) -> Tensor:
    """Returns x @ y, in fp32 if `narrow` and in fp64 otherwise."""
    return x.float() @ y.float() if narrow else x.double() @ y.double()


def fits_fp32(factor_gram: Tensor, coefficients: Tensor) -> bool:
    """Returns whether a product of `coefficients` [r, n] with a factor of this Gram matrix loses little in fp32.

    It loses much if the product's terms are much larger than its result, which is so where nearly parallel columns are
    separated.
    """
    result = (coefficients * (factor_gram @ coefficients)).sum()
    return bool(factor_gram.trace() * coefficients.square().sum() <= FP32_GROWTH**2 * result)


def _root(factor_gram: Tensor) -> tuple[Tensor, Tensor]:
    """Returns R [r, k] and I [r, k] with gram = R Rᵀ and Iᵀ gram I = 1.

    Directions below fp32's rounding error are left out.
    """
    values, vectors = torch.linalg.eigh(factor_gram)
    # Eigenvalues are squared singular values, hence the squared epsilon.
    kept = values > EPSILON**2 * factor_gram.trace()
    root = values[kept].sqrt()
    vectors = vectors[:, kept]
    return vectors * root, vectors / root
