"""Mutations: one parent, one changed child (docs/reference/OPERATORS.md)."""

import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from redqueen.engine.adapters import Adapter, Factors
from redqueen.method.operators.lowrank import Components, copied, of_term, rebuilt
from redqueen.method.operators.modules import by_module, first_of, normals, share, strength, uniform


def svd_spectral(parents: Sequence[Adapter], generator: torch.Generator, *, epsilon: float = 0.1) -> Adapter:
    """Changes the spectrum of every module and turns both its singular subspaces a little.

    Let u, s, vt be the components of a module, of rank n. s becomes s · exp(ε z) with z standard normal, so the median
    of each singular value is the parent's. u becomes u R and vt becomes Qᵀ vt, where R and Q are independent n×n
    rotations exp(K - Kᵀ), K normal with standard deviation ε / √(2n), so that a component turns by about ε √(1 - 1/n):
    at rank 1 nothing turns. The spans of u and vt stay the parent's: the child reads from and writes to the same
    subspaces.
    """
    epsilon = strength("epsilon", epsilon)

    def make(site: str, terms: list[Factors], module_generator: torch.Generator) -> Factors:
        u, s, vt = of_term(terms[0])
        n = s.shape[0]
        # They may change places in size. All of them are kept, so `rebuilt` needs no order.
        s = s * torch.exp(epsilon * normals((n,), module_generator).double())
        u = u @ _small_rotation(n, epsilon, module_generator)
        vt = _small_rotation(n, epsilon, module_generator).T @ vt
        return rebuilt(Components(u, s, vt), terms)

    return by_module(first_of(parents), generator, make)


def layer_gaussian(
    parents: Sequence[Adapter], generator: torch.Generator, *, scale: float = 0.15, fraction: float = 1 / 3
) -> Adapter:
    """Adds `full_gaussian`'s noise to a random third of the layers; the other layers are exact copies.

    A layer is all sites that share the name up to its first number ("model.layers.3"); a site without a number is a
    layer of its own. The count is `fraction` of the layers rounded to the nearest, at least one.
    """
    only = first_of(parents)
    scale = strength("scale", scale)
    fraction = share("fraction", fraction)
    # The layers are sorted, because a set's order differs between processes and the draw goes by position.
    layers = sorted(set(map(_layer, only[0])))
    count = max(1, round(len(layers) * fraction))
    order: list[int] = torch.randperm(len(layers), generator=generator).tolist()
    chosen = {layers[i] for i in order[:count]}

    def make(site: str, terms: list[Factors], module_generator: torch.Generator) -> Factors:
        return _noised(terms[0], scale, module_generator) if _layer(site) in chosen else copied(terms[0])

    return by_module(only, generator, make)


def component_mask(parents: Sequence[Adapter], generator: torch.Generator, *, dropped: float = 0.3) -> Adapter:
    """Drops 30 % of every module's singular components, all equally likely; the rest stay as they are.

    The count is 0.3 n rounded up or down at random, so that its mean is exact at every rank: at rank 1 the whole module
    is dropped in 30 % of the draws. Nothing is rescaled: this is pruning, not dropout.
    """
    dropped = share("dropped", dropped)

    def make(site: str, terms: list[Factors], module_generator: torch.Generator) -> Factors:
        u, s, vt = of_term(terms[0])
        n = s.shape[0]
        # Rounded up or down at random: rounding to the nearest would drop nothing at rank 1, in every draw.
        count = math.floor(dropped * n + uniform(module_generator))
        # Sorted, because `rebuilt` expects the strongest component first.
        kept = torch.randperm(n, generator=module_generator)[count:].sort().values
        return rebuilt(Components(u[:, kept], s[kept], vt[kept]), terms)

    return by_module(first_of(parents), generator, make)


def full_gaussian(parents: Sequence[Adapter], generator: torch.Generator, *, scale: float = 0.15) -> Adapter:
    """Adds normal noise to both factors of every module, 0.15 times each tensor's own standard deviation.

    The noise is drawn for the factors as they are stored, so unlike the spectral operators it depends on how an update
    is split into a and b, and the child keeps that split. An untrained b (zero) gets no noise.

    `factors.perturb` adds noise of the same distribution to the members that start a run.
    """
    # The two are not merged: `factors.perturb` uses one generator for all sites and computes the deviation in
    # fp32, so its numbers differ, and recorded runs depend on both.
    scale = strength("scale", scale)
    return by_module(
        first_of(parents), generator, lambda site, terms, module_generator: _noised(terms[0], scale, module_generator)
    )


def neftune(parents: Sequence[Adapter], generator: torch.Generator, *, alpha: float = 1.0) -> Adapter:
    """Adds uniform noise to a, the side that reads the layer's input; b is an exact copy.

    NEFTune (Jain et al. 2023, arXiv:2310.05914, section 2) adds to the embeddings of a sequence, L vectors of
    dimension d, noise that is uniform in ±α / √(L d), so that its expected squared norm is α²/3 whatever L and d. It
    is drawn anew in every training step and never kept. As a mutation it is kept, and an adapter has no embeddings:
    taking a module's a as r vectors of dimension in, so L d = r · in, follows `populora` (`neftune_style`).

    Two things differ from there. The noise is in units of the vectors' root mean square length ρ = ‖a‖ / √r, so it is
    uniform in ±ρ α / √(r · in), a relative change of a of α / √(3 r). Without ρ (1 in an a drawn as normal / √in) the
    effect would depend on how the update is split into a and b. And α is 1, which changes a tenth of a at rank 32;
    NEFTune's 5 to 15 would leave little of it.
    """
    alpha = strength("alpha", alpha)

    def make(site: str, terms: list[Factors], module_generator: torch.Generator) -> Factors:
        a = terms[0].a.float()
        length = torch.linalg.vector_norm(a, dtype=torch.float64) / math.sqrt(a.shape[1])
        bound = float(length * alpha / math.sqrt(a.numel()))
        noise = torch.empty_like(a).uniform_(-bound, bound, generator=module_generator)
        return Factors(noise.add_(a), terms[0].b.clone())

    return by_module(first_of(parents), generator, make)


def _noised(original: Factors, scale: float, generator: torch.Generator) -> Factors:
    return Factors(_with_noise(original.a, scale, generator), _with_noise(original.b, scale, generator))


def _with_noise(tensor: Tensor, scale: float, generator: torch.Generator) -> Tensor:
    values = tensor.float()
    # The deviation has no correction for small samples, which would divide by zero for a tensor with a single entry.
    spread = torch.linalg.vector_norm(values - values.mean(), dtype=torch.float64) / math.sqrt(values.numel())
    return normals(values.shape, generator).mul_(scale * float(spread)).add_(values)


def _small_rotation(n: int, epsilon: float, generator: torch.Generator) -> Tensor:
    """Returns a random n×n rotation, fp64, that turns each direction by about `epsilon` √(1 - 1/n)."""
    if n == 0:
        return torch.zeros(0, 0, dtype=torch.float64)
    k = normals((n, n), generator).double() * (epsilon / math.sqrt(2 * n))
    return torch.linalg.matrix_exp(k - k.T)


def _layer(site: str) -> str:
    """Returns the name that all modules of one layer share."""
    numbered = re.match(r"(?:.*?\.)?\d+(?=\.|$)", site)
    return numbered.group() if numbered else site
