"""The relative Frobenius distance of two adapters' updates, computed from the factors alone."""

from math import sqrt

import torch

from redqueen.engine.adapters.factors import Adapter


def relative_distance(x: Adapter, y: Adapter) -> float:
    """Returns ‖ΔX - ΔY‖ / max(‖ΔX‖, ‖ΔY‖), with norms over all sites together: in [0, 2], and 0 for two zero updates.

    The inner products are those of the factors, <a b, a' b'> = Σ (aᵀ a') ∘ (b b'ᵀ), so ΔW is never built.
    Rounding leaves an absolute error of about 1e-8. The scaling s is common to a population and cancels.

    Raises ValueError if the adapters differ in sites.
    """
    if x.keys() != y.keys():
        raise ValueError(f"adapters differ in sites: {sorted(x.keys() ^ y.keys())}")
    xx = xy = yy = 0.0
    for site, f in x.items():
        g = y[site]
        rank = f.a.shape[1]
        # One Gram matrix of both adapters' factors holds all three inner products. It is computed in fp64, because
        # close adapters leave a small difference of large numbers: fp32 would see distances below about 1e-3 as noise.
        readers = torch.cat([f.a, g.a], dim=1).to("cpu", torch.float64)
        writers = torch.cat([f.b, g.b], dim=0).to("cpu", torch.float64)
        gram = (readers.T @ readers) * (writers @ writers.T)
        xx += float(gram[:rank, :rank].sum())
        xy += float(gram[:rank, rank:].sum())
        yy += float(gram[rank:, rank:].sum())
    # Rounding may leave a tiny negative square.
    largest = max(xx, yy)
    return sqrt(max(0.0, xx + yy - 2.0 * xy) / largest) if largest > 0.0 else 0.0
