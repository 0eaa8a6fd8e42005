"""Operators make a child's weights from its parents' weights (docs/reference/OPERATORS.md has the formulas).

An operator is a pure function (parents, generator) -> child; its own parameters are keywords with defaults. Parents
come fitter first; mutations and the controls `copy_parent` and `fresh` read only the first, crossovers need two.
A child has its parents' sites, ranks, shapes, dtypes and devices, in new storage, and no autograd history. It depends
on the generator's state and the parents' values only, never on the order of a mapping or the number of threads.

Operators work on ΔWᵀ = a @ b; the scaling s is common to the whole population and cancels out.
"""

from redqueen.method.operators.controls import copy_parent, fresh, linear_mean
from redqueen.method.operators.crossovers import dare, extrapolate, slot_swap, svd_subspace
from redqueen.method.operators.modules import Operator
from redqueen.method.operators.mutations import component_mask, full_gaussian, layer_gaussian, neftune, svd_spectral

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
