"""Crossovers: two parents, one child (DESIGN section 3, "Operators")."""

from collections.abc import Sequence

import torch

from redqueen.adapters.factors import Adapter, Factors
from redqueen.adapters.operators.lowrank import (
    Components,
    by_site,
    components,
    copied,
    integer,
    to_factors,
    two_of,
    uniform,
    uniforms,
    weighted_sum,
    working,
)

DARE_DROPPED = 0.7
DARE_WEIGHT = 0.5
EXTRAPOLATION = (1.0, 1.5)


def dare(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
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

    def make(site: str, own: list[Factors]) -> Factors:
        thinned = [(DARE_WEIGHT, _thinned(working(f), generator)) for f in own]
        return to_factors(components(weighted_sum(thinned)), working(own[0]).a, own[0])

    return by_site(two_of(parents), make)


def slot_swap(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Take every slot (one module of one layer: a site) from either parent, equally likely, bit for bit."""
    return by_site(two_of(parents), lambda site, own: copied(own[integer(2, generator)]))


def svd_subspace(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """The leading singular components of one parent, the rest of the other.

    One coin for the whole child says which parent leads, so that what the layers do together stays together.
    The cut is drawn for every site: uniform in 1 .. r-1 components from the leading parent, components cut+1
    .. r from the other. Rank r is kept without truncation. At rank 1 the leading parent gives all.
    """
    lead = integer(2, generator)

    def make(site: str, own: list[Factors]) -> Factors:
        rank = own[0].a.shape[1]
        cut = 1 + integer(rank - 1, generator) if rank > 1 else 1
        first, second = components(working(own[lead])), components(working(own[1 - lead]))
        joined = Factors(
            torch.cat([first.u[:, :cut] * first.s[:cut], second.u[:, cut:] * second.s[cut:]], dim=1),
            torch.cat([first.vt[:cut], second.vt[cut:]], dim=0),
        )
        return to_factors(components(joined), working(own[0]).a, own[0])

    return by_site(two_of(parents), make)


def extrapolate(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Go past the fitter parent, away from the other: ΔW = ΔW₂ + η (ΔW₁ - ΔW₂), back at rank r.

    η is uniform in [1, 1.5], one draw for the whole child; at 1 the child is the fitter parent.
    """
    low, high = EXTRAPOLATION
    eta = low + (high - low) * uniform(generator)

    def make(site: str, own: list[Factors]) -> Factors:
        fitter, other = working(own[0]), working(own[1])
        return to_factors(components(weighted_sum([(eta, fitter), (1.0 - eta, other)])), fitter.a, own[0])

    return by_site(two_of(parents), make)


def _thinned(parent: Factors, generator: torch.Generator) -> Factors:
    found: Components = components(parent)
    kept = uniforms(found.vt.shape, generator) >= DARE_DROPPED
    return Factors(found.u * found.s, found.vt * kept / (1.0 - DARE_DROPPED))
