"""Controls: what an operator has to beat before its name means anything (DESIGN section 3, "Operators")."""

import math
from collections.abc import Sequence

import torch

from redqueen.adapters.factors import Adapter, Factors
from redqueen.adapters.operators.lowrank import copied, update, weighted_sum
from redqueen.adapters.operators.slots import Slot, by_slot, checked, first_of


def copy_parent(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """The fittest parent again, bit for bit, in new storage."""
    return by_slot(first_of(parents), generator, lambda slot, own, own_generator: copied(own[0]))


def linear_mean(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """The best rank-r approximation (Eckart-Young) of the mean of the parents' updates; any number of
    parents.

    The mean is taken of the products a @ b. Averaging a and b separately gives cross terms (PEFT #3004).
    """
    if not parents:
        raise ValueError("an operator needs a parent")

    def make(slot: Slot, own: list[Factors], own_generator: torch.Generator) -> Factors:
        return weighted_sum(update(own), [1.0 / len(own)] * len(own), own[0].a)

    return by_slot(checked(parents), generator, make)


def fresh(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """A new, untrained adapter of the parents' form: b is zero, a uniform within ±1/√in, as PEFT initialises
    it."""

    def make(slot: Slot, own: list[Factors], own_generator: torch.Generator) -> Factors:
        a, b = own[0].a, own[0].b
        bound = 1.0 / math.sqrt(a.shape[0])
        noise = torch.empty(a.shape, dtype=torch.float32).uniform_(-bound, bound, generator=own_generator)
        return Factors(noise, torch.zeros_like(b))

    return by_slot(first_of(parents), generator, make)
