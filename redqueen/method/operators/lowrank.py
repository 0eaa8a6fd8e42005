"""The singular components of a low-rank update, and the way back to factors, without the in×out matrix.

For a @ b of rank r: thin QRs a = Qa Ra and bᵀ = Qb Rb leave the r×r matrix Ra Rbᵀ, and its SVD gives the components.
Everything runs in fp64 on the CPU, whatever the parents' dtype and device, so that the child does not depend on the
device of its parents.

Components leave open how an update is split into a and b, so the split is taken from the parents: a child learns as
fast as they do. a @ b is the same for every split into a X and X⁻¹ b, but training is not: Adam moves every entry of a
and b by about the learning rate, so how far the product moves depends on how long a and b are, and on how alike the
columns of a and the rows of b are.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor

from redqueen.engine.adapters import Factors

# The split's lengths along two directions differ at most by the root of this. It bounds what rounding can grow to where
# a parent is ill-conditioned.
_NARROWEST = 1e-6
EPSILON = torch.finfo(torch.float32).eps
# By how much a child's step may be longer than its parents' before their split is given up.
TOO_FAST = 0.05


class Components(NamedTuple):
    """The singular components of an update u @ diag(s) @ vt, strongest first, in fp64.

    The columns of u and the rows of vt are orthonormal. n is the numerical rank: at most min(in, r, out), and 0 for a
    zero update.
    """

    u: Tensor
    """[in, n]."""
    s: Tensor
    """[n]."""
    vt: Tensor
    """[n, out]."""


def components(a: Tensor, b: Tensor) -> Components:
    """Returns the singular components of a [in, r] @ b [r, out] that are above fp32's rounding error.

    Their signs are such that Σ √i u_i > 0 over the rows of u (i from 1).
    """
    q_a, r_a = torch.linalg.qr(a.double())
    q_b, r_b = torch.linalg.qr(b.double().T)
    left, s, right = torch.linalg.svd(r_a @ r_b.T, full_matrices=False)
    # Rounding error is relative to the size of the factors, not of the product: a @ b may cancel to nothing.
    size = torch.linalg.vector_norm(r_a) * torch.linalg.vector_norm(r_b)
    n = int((s > EPSILON * a.shape[1] * size).sum())
    u = q_a @ left[:, :n]
    # An SVD leaves the sign of each pair open, and numbers are drawn in this basis, so without a rule a child would
    # depend on the LAPACK in use. The weights are unequal, because plain sums are often zero by symmetry.
    weights = torch.arange(1, len(u) + 1, dtype=torch.float64).sqrt()
    signs = torch.where(weights @ u < 0, -1.0, 1.0).double()
    return Components(u * signs, s[:n], signs[:, None] * (right[:n] @ q_b.T))


def of_term(term: Factors) -> Components:
    """Returns the components of one adapter's update at a module."""
    return components(term.a, term.b)


def rebuilt(parts: Components, terms: Sequence[Factors]) -> Factors:
    """Returns factors of the best approximation of `parts` with the terms' rank, that learn as fast as the terms do.

    `parts` are the child's components, with as many as are kept in front. If there are fewer than the rank, a also
    reads along directions of the first term's a that carry nothing yet; a child without a component keeps that a as it
    is. The factors are new tensors: a [in, rank], b [rank, out].
    """
    readers = [term.a.double() for term in terms]
    rank = readers[0].shape[1]
    u = parts.u[:, :rank]
    s = parts.s[:rank]
    vt = parts.vt[:rank]
    fan_in, fan_out = len(u), vt.shape[1]
    if not len(s):
        return Factors(terms[0].a.float().clone(), torch.zeros(rank, fan_out))
    squares = [(_square(reader), _square(term.b)) for reader, term in zip(readers, terms, strict=True)]
    step = fmean(step_length(a_squared, b_squared, fan_in, fan_out) for a_squared, b_squared in squares)
    before, after, unused = split([u.T @ reader for reader in readers], s)
    # A child that is much larger than its parents is too fast in their split, however a and b are stretched.
    too_fast = shortest(_square(before), _square(after), fan_in, fan_out) > (1 + TOO_FAST) * step
    if too_fast:
        before, after, unused = equal_split(s, rank)
    a = u @ before
    # With a and b both zero no gradient would ever reach a place of the rank. So the first term's a fills what the
    # child's components leave free. No row of b writes there, so the product stays the same.
    if len(s) < rank:
        a += readers[0] @ unused
    c = 1.0 if too_fast else scale(_square(a), _square(after), fan_in, fan_out, step)
    return Factors(a * c, (after @ vt) / c)


def weighted_sum(terms: Sequence[Factors], weights: Sequence[float]) -> Factors:
    """Returns the best rank-r approximation (Eckart-Young) of Σ weight · a @ b, as `rebuilt` gives it."""
    a = torch.cat([term.a for term in terms], dim=1)
    b = torch.cat([weight * term.b.double() for weight, term in zip(weights, terms, strict=True)])
    return rebuilt(components(a, b), terms)


def copied(factors: Factors) -> Factors:
    """Returns the same values, bit for bit, in new storage."""
    return Factors(factors.a.clone(), factors.b.clone())


def _square(tensor: Tensor) -> float:
    return float(tensor.double().square().sum())


def step_length(a_squared: float, b_squared: float, fan_in: int, fan_out: int) -> float:
    """Returns how far one Adam step moves a @ b, in learning rates, from the squared norms of a and b.

    A step moves every entry of b by the learning rate, which changes a @ b by about ‖a‖ √out of them, and every entry
    of a, which changes it by √in ‖b‖.
    """
    return math.sqrt(fan_out * a_squared + fan_in * b_squared)


def split(readings: Sequence[Tensor], s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns X [n, r] and Y [r, n] with X Y = diag(s): a child u diag(s) vt of n components is split as u X and Y vt.

    `readings` are uᵀ a of each parent, [n, r] fp64. The third result is the projection [r, r] on the places of the
    rank that Y does not write to: it is zero if n = r.
    """
    # The parents' a aᵀ, seen in the child's directions, says how long a is along each of them. With X = √M Q for any
    # rotation Q the child's is the same; for one parent whose a spans u it is u uᵀ a itself.
    metric = torch.stack([reading @ reading.T for reading in readings]).mean(0)
    values, vectors = torch.linalg.eigh(metric)
    lengths = values.clamp_min(_NARROWEST * float(values[-1])).sqrt()
    root, inverse = (vectors * lengths) @ vectors.T, (vectors / lengths) @ vectors.T
    # Adam is not invariant to rotations, so the child's columns of a lie as close to the first parent's as they can
    # (orthogonal Procrustes).
    left, _, right = torch.linalg.svd(root @ readings[0], full_matrices=False)
    rotation = left @ right
    unused = torch.eye(rotation.shape[1], dtype=rotation.dtype) - rotation.T @ rotation
    return root @ rotation, rotation.T @ (inverse * s), unused


def equal_split(s: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns what `split` does, for √s on both sides: of all splits the one with the shortest factors."""
    shares = torch.diag(s.sqrt())
    left = torch.nn.functional.pad(shares, (0, rank - len(s)))
    unused = torch.diag((torch.arange(rank) >= len(s)).to(s.dtype))
    return left, left.T, unused


def shortest(a_squared: float, b_squared: float, fan_in: int, fan_out: int) -> float:
    """Returns the least `step_length` that c a and b / c can have."""
    return math.sqrt(2 * math.sqrt(fan_out * a_squared * fan_in * b_squared))


def scale(a_squared: float, b_squared: float, fan_in: int, fan_out: int, wanted: float) -> float:
    """Returns the factor c such that c a and b / c move by `wanted` in a step (`step_length`), or as nearly as can be.

    Of two such factors it is the one nearer to 1. b must not be zero.
    """
    x, y = fan_out * a_squared, fan_in * b_squared
    # c² x + y / c² = wanted² is a quadratic equation for c². Without a solution the shortest step is nearest to it.
    rest = wanted**4 - 4 * x * y
    if rest <= 0:
        return (y / x) ** 0.25
    larger = (wanted**2 + math.sqrt(rest)) / (2 * x)
    smaller = y / (x * larger)
    return math.sqrt(min(larger, smaller, key=lambda square: abs(math.log(square))))
