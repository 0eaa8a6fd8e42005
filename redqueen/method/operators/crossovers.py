"""Crossovers: two parents, one child (docs/reference/OPERATORS.md)."""

from collections.abc import Sequence

import torch

from redqueen.engine.adapters import Adapter, Factors
from redqueen.method.operators.lowrank import components, copied, of_term, rebuilt, weighted_sum
from redqueen.method.operators.modules import by_module, integer, share, strength, two_of, uniform, uniforms


def dare(
    parents: Sequence[Adapter], generator: torch.Generator, *, dropped: float = 0.7, weight: float = 0.5
) -> Adapter:
    """Drops and rescales entries of both parents, then adds half of each, back at rank r.

    DARE (Yu et al. 2024, "Language Models are Super Mario", arXiv:2311.03099) drops entries of ΔW. ΔW is never built
    here, so entries of its output side are dropped, in the singular basis: with a @ b = u diag(s) vt, each entry of vt
    is zeroed with probability 0.7 and otherwise divided by 0.3. Because u's columns are orthonormal, this keeps two of
    dense DARE's moments exactly: the expectation is the parent's update, and the expected squared Frobenius distance
    from it is 0.7 / 0.3 · ‖ΔW‖². Masking a and b separately, as PEFT's merges do, gives cross terms and keeps neither
    moment (PEFT #3004).

    Each parent weighs 0.5, so before the truncation to rank r the child's expectation is the parents' mean, and
    identical parents have children around themselves. Weights of 1 would double the update with every generation. The
    truncation keeps the r strongest of 2r components and shrinks the result, so the expectation is not exact after it.

    Raises ValueError if `dropped` is outside [0, 1) or `weight` is negative.
    """
    dropped = share("dropped", dropped)
    weight = strength("weight", weight)

    def make(site: str, terms: list[Factors], module_generator: torch.Generator) -> Factors:
        first, second = map(of_term, terms)
        # Both parents' vt, one below the other, with entries dropped; u diag(s) stays in `left`.
        left = torch.cat([first.u * first.s, second.u * second.s], dim=1)
        thinned = torch.cat([first.vt, second.vt])
        thinned *= uniforms(thinned.shape, module_generator) >= dropped
        thinned *= weight / (1.0 - dropped)
        # The sum has rank 2r and new singular components, of which `rebuilt` keeps the r strongest.
        return rebuilt(components(left, thinned), terms)

    return by_module(two_of(parents), generator, make)


def slot_swap(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Takes every module of every layer from either parent, equally likely, bit for bit.

    The slots of its name are the modules of an adapter, not those of the adapter bank.
    """
    return by_module(
        two_of(parents), generator, lambda site, terms, module_generator: copied(terms[integer(2, module_generator)])
    )


def svd_subspace(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Joins the leading singular components of one parent with the rest of the other.

    One draw for the whole child decides which parent leads. The cut is drawn for every module, uniformly from 1 .. r-1:
    components 1 .. cut come from the leading parent, components cut+1 .. r from the other. Rank r is kept without
    truncation. At rank 1 the leading parent gives everything.
    """
    both = two_of(parents)
    # One draw for each child, not for each module: modules with different leaders would break what layers do together.
    lead = integer(2, generator)

    def make(site: str, terms: list[Factors], module_generator: torch.Generator) -> Factors:
        rank = terms[0].a.shape[1]
        cut = 1 + integer(rank - 1, module_generator) if rank > 1 else 1
        ordered = [terms[lead], terms[1 - lead]]
        first, second = map(of_term, ordered)
        left = torch.cat([first.u[:, :cut] * first.s[:cut], second.u[:, cut:] * second.s[cut:]], dim=1)
        right = torch.cat([first.vt[:cut], second.vt[cut:]])
        return rebuilt(components(left, right), ordered)

    return by_module(both, generator, make)


def extrapolate(
    parents: Sequence[Adapter], generator: torch.Generator, *, low: float = 1.0, high: float = 1.5
) -> Adapter:
    """Goes beyond the fitter parent, away from the other: ΔW = ΔW₂ + η (ΔW₁ - ΔW₂), back at rank r.

    η is uniform in [1, 1.5], one draw for the whole child; at 1 the child is the fitter parent.

    Raises ValueError if `low` is negative or above `high`.
    """
    both = two_of(parents)
    if not strength("low", low) <= strength("high", high):
        raise ValueError(f"low must not be above high, not {low} and {high}")
    # One draw for each child: the whole adapter moves along one line through its parents.
    eta = low + (high - low) * uniform(generator)

    def make(site: str, terms: list[Factors], module_generator: torch.Generator) -> Factors:
        return weighted_sum(terms, [eta, 1.0 - eta])

    return by_module(both, generator, make)
