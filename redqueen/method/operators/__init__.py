"""Operators make a child's weights from its parents' weights (docs/reference/OPERATORS.md has the formulas).

An operator is a pure function (parents, generator) -> child; its own parameters are keywords with defaults. Parents
come fitter first; mutations and the controls `copy_parent` and `fresh` read only the first, crossovers need two.
A child has its parents' sites, ranks, shapes, dtypes and devices, in new storage, and no autograd history. It depends
on the generator's state and the parents' values only, never on the order of a mapping or the number of threads.

Operators work on ΔWᵀ = a @ b; the scaling s is common to the whole population and cancels out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from redqueen.engine.adapters import Adapter, Factors
from redqueen.method.operators.crossovers import dare, extrapolate, slot_swap, svd_subspace
from redqueen.method.operators.lowrank import copied, weighted_sum
from redqueen.method.operators.modules import Operator, by_module, checked, first_of
from redqueen.method.operators.mutations import component_mask, full_gaussian, layer_gaussian, neftune, svd_spectral

# Controls: the simplest ways to make a child, which any other operator has to beat.


def copy_parent(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Copies the fittest parent bit for bit, in new storage."""
    return by_module(first_of(parents), generator, lambda site, terms, module_generator: copied(terms[0]))


def linear_mean(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Takes the best rank-r approximation (Eckart-Young) of the mean of the updates of any number of parents.

    Raises ValueError if `checked` refuses the parents.
    """

    def make(site: str, terms: list[Factors], module_generator: torch.Generator) -> Factors:
        # The products are averaged, not the factors: mean(a) @ mean(b) has cross terms (PEFT #3004).
        return weighted_sum(terms, [1.0 / len(terms)] * len(terms))

    return by_module(checked(parents), generator, make)


def fresh(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Makes a new, untrained adapter of the parents' form: b is zero, a uniform within ±1/√in, as PEFT draws it.

    `factors.fresh` draws from the same distribution for the members that start a run.
    """
    # The two are not merged: `factors.fresh` uses one generator for all sites and scales in another order, so
    # its numbers differ in their last bits, and recorded runs depend on both.

    def make(site: str, terms: list[Factors], module_generator: torch.Generator) -> Factors:
        parent = terms[0]
        bound = 1.0 / math.sqrt(parent.a.shape[0])
        noise = torch.empty(parent.a.shape, dtype=torch.float32).uniform_(-bound, bound, generator=module_generator)
        return Factors(noise, torch.zeros_like(parent.b))

    return by_module(first_of(parents), generator, make)


MUTATIONS: dict[str, Operator] = {
    "svd_spectral": svd_spectral,
    "layer_gaussian": layer_gaussian,
    "component_mask": component_mask,
    "full_gaussian": full_gaussian,
    "neftune": neftune,
}
CROSSOVERS: dict[str, Operator] = {
    "dare": dare,
    "slot_swap": slot_swap,
    "svd_subspace": svd_subspace,
    "extrapolate": extrapolate,
}
# Controls are not in the game by default. They are what every operator has to beat in an ablation.
CONTROLS: dict[str, Operator] = {
    "copy_parent": copy_parent,
    "linear_mean": linear_mean,
    "fresh": fresh,
}
