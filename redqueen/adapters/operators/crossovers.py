"""Crossovers: two parents, one child (DESIGN section 3, "Operators")."""

from collections.abc import Sequence

import torch

from redqueen.adapters.factors import Adapter, Factors
from redqueen.adapters.operators.lowrank import (
    Components,
    Update,
    components,
    copied,
    fits_fp32,
    gram,
    product,
    rebuilt,
    update,
    weighted_sum,
)
from redqueen.adapters.operators.slots import Slot, by_slot, integer, share, strength, two_of, uniform, uniforms


def dare(
    parents: Sequence[Adapter], generator: torch.Generator, *, dropped: float = 0.7, weight: float = 0.5
) -> Adapter:
    """Drop and rescale both parents, then add them, half of each, back at rank r.

    DARE (Yu et al. 2024, "Language Models are Super Mario") drops entries of ΔW. ΔW is never built here, so
    the entries of its output side are dropped, in the singular basis: with a @ b = u diag(s) vt, each entry
    of vt is zeroed with probability 0.7 and otherwise divided by 0.3. Because u's columns are orthonormal,
    this keeps two of dense DARE's moments exactly: the expectation is the parent's update, and the expected
    squared Frobenius distance from it is 0.7 / 0.3 · ‖ΔW‖². (Masking a and b separately, as PEFT's merges
    do, has cross terms and neither moment: PEFT #3004.)

    Each parent weighs 0.5, so before the truncation to rank r the child's expectation is the parents' mean,
    and identical parents breed around themselves. Weights of 1 would double the update with every generation.
    The truncation keeps the r strongest of 2r components and so shrinks the result: the expectation is exact
    only before it.
    """
    dropped, weight = share("dropped", dropped), strength("weight", weight)

    def make(slot: Slot, own: list[Factors], own_generator: torch.Generator) -> Factors:
        pair, (first, second) = _pair(own)
        left = torch.block_diag(first.p * first.s, second.p * second.s)
        rank = own[0].a.shape[1]
        grams = pair.gram_b[:rank, :rank], pair.gram_b[rank:, rank:]
        thinned = torch.cat(
            [
                product(found.q, f.b, fits_fp32(gram_b, found.q.T)).float()
                for found, f, gram_b in zip((first, second), own, grams, strict=True)
            ]
        )
        thinned *= uniforms(thinned.shape, own_generator) >= dropped
        thinned *= weight / (1.0 - dropped)
        gram_b = gram(thinned.T)
        p, s, q = components(left.T @ pair.gram_a @ left, gram_b, pair.probe @ left)
        return rebuilt(pair._replace(b=thinned, gram_b=gram_b), Components(left @ p, s, q), own[0].a)

    return by_slot(two_of(parents), generator, make)


def slot_swap(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Take every slot (one module of one layer) from either parent, equally likely, bit for bit."""
    return by_slot(two_of(parents), generator, lambda slot, own, own_generator: copied(own[integer(2, own_generator)]))


def svd_subspace(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """The leading singular components of one parent, the rest of the other.

    One coin for the whole child says which parent leads, so that what the layers do together stays together.
    The cut is drawn for every slot: uniform in 1 .. r-1 components from the leading parent, components cut+1
    .. r from the other. Rank r is kept without truncation. At rank 1 the leading parent gives all.
    """
    both = two_of(parents)
    lead = integer(2, generator)

    def make(slot: Slot, own: list[Factors], own_generator: torch.Generator) -> Factors:
        rank = own[0].a.shape[1]
        cut = 1 + integer(rank - 1, own_generator) if rank > 1 else 1
        pair, (first, second) = _pair([own[lead], own[1 - lead]])
        left = torch.block_diag(first.p[:, :cut] * first.s[:cut], second.p[:, cut:] * second.s[cut:])
        right = torch.block_diag(first.q[:cut], second.q[cut:])
        p, s, q = components(left.T @ pair.gram_a @ left, right @ pair.gram_b @ right.T, pair.probe @ left)
        return rebuilt(pair, Components(left @ p, s, q @ right), own[0].a)

    return by_slot(both, generator, make)


def extrapolate(
    parents: Sequence[Adapter], generator: torch.Generator, *, low: float = 1.0, high: float = 1.5
) -> Adapter:
    """Go past the fitter parent, away from the other: ΔW = ΔW₂ + η (ΔW₁ - ΔW₂), back at rank r.

    η is uniform in [1, 1.5], one draw for the whole child; at 1 the child is the fitter parent.
    """
    both = two_of(parents)
    if not strength("low", low) <= strength("high", high):
        raise ValueError(f"low must not be above high, not {low} and {high}")
    eta = low + (high - low) * uniform(generator)

    def make(slot: Slot, own: list[Factors], own_generator: torch.Generator) -> Factors:
        return weighted_sum(update(own), [eta, 1.0 - eta], own[0].a)

    return by_slot(both, generator, make)


def _pair(own: list[Factors]) -> tuple[Update, tuple[Components, Components]]:
    """The sum of two updates, and the components of each as combinations of its own factors."""
    pair, rank = update(own), own[0].a.shape[1]
    parts = slice(rank), slice(rank, 2 * rank)
    first, second = (components(pair.gram_a[i, i], pair.gram_b[i, i], pair.probe[i]) for i in parts)
    return pair, (first, second)
