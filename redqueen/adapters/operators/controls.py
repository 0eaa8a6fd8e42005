"""Controls: what an operator has to beat before its name means anything (DESIGN section 3, "Operators")."""

import math
from collections.abc import Sequence

import torch

from redqueen.adapters.factors import Adapter, Factors
from redqueen.adapters.operators.lowrank import (
    by_site,
    checked,
    components,
    copied,
    first_of,
    to_factors,
    uniforms,
    weighted_sum,
    working,
)


def copy_parent(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """The fittest parent again, bit for bit, in new storage."""
    return by_site(first_of(parents), lambda site, own: copied(own[0]))


def linear_mean(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """The best rank-r approximation (Eckart-Young) of the mean of the parents' updates; any number of
    parents.

    The mean is taken of the products a @ b. Averaging a and b separately gives cross terms (PEFT #3004).
    """
    if not parents:
        raise ValueError("an operator needs a parent")

    def make(site: str, own: list[Factors]) -> Factors:
        mean = weighted_sum([(1.0 / len(own), working(f)) for f in own])
        return to_factors(components(mean), working(own[0]).a, own[0])

    return by_site(checked(parents), make)


def fresh(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """A new, untrained adapter of the parents' form: b is zero, a uniform within ±1/√in, as PEFT initialises
    it."""

    def make(site: str, own: list[Factors]) -> Factors:
        a, b = own[0].a, own[0].b
        bound = 1.0 / math.sqrt(a.shape[0])
        noise = (2.0 * uniforms(a.shape, generator) - 1.0) * bound
        return Factors(noise.to(a.device, a.dtype), torch.zeros_like(b))

    return by_site(first_of(parents), make)
