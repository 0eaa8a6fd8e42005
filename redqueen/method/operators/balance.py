"""Splits a child's update into a and b so that it learns as fast as its parents do.

An update a @ b is the same for every split into a X and X⁻¹ b, but training is not: Adam moves every entry of a and b
by about the learning rate, so how far the product moves depends on how long a and b are, and on how alike the columns
of a and the rows of b are. Singular components leave the split open, so it is taken from the parents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# The split's lengths along two directions differ at most by the root of this. It bounds what rounding can grow to where
# a parent is ill-conditioned.
_NARROWEST = 1e-6


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
