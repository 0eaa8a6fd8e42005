"""Mutations: one parent, one changed child (DESIGN section 3, "Operators")."""

import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from redqueen.adapters.factors import Adapter, Factors
from redqueen.adapters.operators.lowrank import (
    Components,
    by_site,
    components,
    copied,
    first_of,
    normals,
    to_factors,
    uniform,
    working,
)

SPECTRAL_EPSILON = 0.1
GAUSSIAN_SCALE = 0.15
LAYER_FRACTION = 1 / 3
DROPPED_COMPONENTS = 0.3


def svd_spectral(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Jitter every site's spectrum and turn both its singular subspaces a little.

    With u, s, vt the components of a site, of rank n, and ε = 0.1: s becomes s · exp(ε z), z standard normal;
    u becomes u R and vt becomes Qᵀ vt, where R and Q are independent n×n rotations exp(K - Kᵀ), K normal with
    standard deviation ε / √(2n), so that a component turns by about ε whatever the rank. The spans of u and
    vt stay the parent's: what it reads from and writes to is remixed, not replaced. Median of each singular
    value: the parent's.
    """

    def make(site: str, own: list[Factors]) -> Factors:
        parent = working(own[0])
        u, s, vt = components(parent)
        n = s.shape[0]
        jitter = torch.exp(SPECTRAL_EPSILON * normals((n,), generator))
        u, vt = u @ _small_rotation(n, generator), _small_rotation(n, generator).T @ vt
        return to_factors(Components(u, s * jitter, vt), parent.a, own[0])

    return by_site(first_of(parents), make)


def layer_gaussian(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """`full_gaussian`'s noise on a random third of the layers; the other layers are exact copies.

    A layer is all sites that share the name up to its first number ("model.layers.3"); a site without a
    number is a layer of its own. The count is a third rounded to the nearest, at least one.
    """
    only = first_of(parents)
    layers = sorted({_layer(site) for site in only[0]})
    count = max(1, round(len(layers) * LAYER_FRACTION))
    order: list[int] = torch.randperm(len(layers), generator=generator).tolist()
    chosen = {layers[i] for i in order[:count]}
    return by_site(only, lambda site, own: _noised(own[0], generator) if _layer(site) in chosen else copied(own[0]))


def component_mask(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Drop 30 % of every site's singular components, all equally likely; the rest stay as they are.

    The count is 0.3 n rounded up or down at random, so that its mean is exact at every rank: at rank 1 the
    whole site goes in 30 % of the draws. No rescaling: this is pruning, not dropout.
    """

    def make(site: str, own: list[Factors]) -> Factors:
        parent = working(own[0])
        u, s, vt = components(parent)
        n = s.shape[0]
        count = math.floor(DROPPED_COMPONENTS * n + uniform(generator))
        kept = torch.randperm(n, generator=generator)[count:].sort().values
        return to_factors(Components(u[:, kept], s[kept], vt[kept]), parent.a, own[0])

    return by_site(first_of(parents), make)


def full_gaussian(parents: Sequence[Adapter], generator: torch.Generator) -> Adapter:
    """Normal noise on both factors of every site, 0.15 times each tensor's own standard deviation.

    The noise is drawn for the factors as they are stored, so unlike the spectral operators it depends on how
    an update is split into a and b; the child is balanced again. An untrained b (zero) gets no noise.
    """
    return by_site(first_of(parents), lambda site, own: _noised(own[0], generator))


def _noised(original: Factors, generator: torch.Generator) -> Factors:
    parent = working(original)
    child = Factors(_with_noise(parent.a, generator), _with_noise(parent.b, generator))
    return to_factors(components(child), child.a, original)


def _with_noise(tensor: Tensor, generator: torch.Generator) -> Tensor:
    # correction=0: a tensor with a single entry has no spread, where the sample estimate would be NaN.
    scale = GAUSSIAN_SCALE * tensor.std(correction=0)
    return tensor + scale * normals(tensor.shape, generator)


def _small_rotation(n: int, generator: torch.Generator) -> Tensor:
    if n == 0:
        return torch.zeros(0, 0)
    k = normals((n, n), generator) * (SPECTRAL_EPSILON / math.sqrt(2 * n))
    return torch.linalg.matrix_exp(k - k.T)


def _layer(site: str) -> str:
    numbered = re.match(r"(?:.*?\.)?\d+(?=\.|$)", site)
    return numbered.group() if numbered else site
