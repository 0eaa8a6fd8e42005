"""Controls: the simplest ways to make a child, which any other operator has to beat."""

import math
from collections.abc import Sequence

import torch

from redqueen.engine.adapters.factors import Adapter, Factors
from redqueen.method.operators.lowrank import copied, weighted_sum
from redqueen.method.operators.modules import Module, by_module, checked, first_of


def copy_parent(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Copies the fittest parent bit for bit, in new storage."""
    return by_module(first_of(parents), generator, lambda module, terms, module_generator: copied(terms[0]))


def linear_mean(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Takes the best rank-r approximation (Eckart-Young) of the mean of the updates of any number of parents.

    Raises ValueError if `checked` refuses the parents.
    """

    def make(module: Module, terms: list[Factors], module_generator: torch.Generator) -> Factors:
        # The products are averaged, not the factors: mean(a) @ mean(b) has cross terms (PEFT #3004).
        return weighted_sum(terms, [1.0 / len(terms)] * len(terms))

    return by_module(checked(parents), generator, make)


def fresh(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Makes a new, untrained adapter of the parents' form: b is zero, a uniform within ±1/√in, as PEFT draws it.

    `factors.fresh` draws from the same distribution for the members that start a run.
    """
    # The two are not merged: `factors.fresh` uses one generator for all sites and scales in another order, so
    # its numbers differ in their last bits, and recorded runs depend on both.

    def make(module: Module, terms: list[Factors], module_generator: torch.Generator) -> Factors:
        parent = terms[0]
        bound = 1.0 / math.sqrt(parent.a.shape[0])
        noise = torch.empty(parent.a.shape, dtype=torch.float32).uniform_(-bound, bound, generator=module_generator)
        return Factors(noise, torch.zeros_like(parent.b))

    return by_module(first_of(parents), generator, make)
