"""How far apart two adapters are: the relative Frobenius distance of their updates, through the factors alone."""

from math import sqrt

import torch

from redqueen.adapters.factors import Adapter


def relative_distance(x: Adapter, y: Adapter) -> float:
    """‖ΔX - ΔY‖ / max(‖ΔX‖, ‖ΔY‖), the norms over all sites together; in [0, 2], 0 for two zero updates.

    Computed in fp64 from inner products of the factors, <a b, a' b'> = Σ (aᵀ a') ∘ (b b'ᵀ), so ΔW is never built.
    Rounding leaves an absolute error of about 1e-8. The scaling s is common to a population and cancels.

    Raises ValueError if the adapters differ in sites.
    """
    if x.keys() != y.keys():
        raise ValueError(f"adapters differ in sites: {sorted(x.keys() ^ y.keys())}")
    xx = xy = yy = 0.0
    for site, f in x.items():
        g = y[site]
        rank = f.a.shape[1]
        # One Gram matrix of both adapters' factors holds all three inner products.
        readers = torch.cat([f.a, g.a], dim=1).to("cpu", torch.float64)
        writers = torch.cat([f.b, g.b], dim=0).to("cpu", torch.float64)
        gram = (readers.T @ readers) * (writers @ writers.T)
        xx += float(gram[:rank, :rank].sum())
        xy += float(gram[:rank, rank:].sum())
        yy += float(gram[rank:, rank:].sum())
    largest = max(xx, yy)
    return sqrt(max(0.0, xx + yy - 2.0 * xy) / largest) if largest > 0.0 else 0.0
