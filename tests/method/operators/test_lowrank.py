"""Components by thin QRs against a dense fp64 SVD, also where the factors are ill-conditioned."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from redqueen.engine.adapters import Factors
from redqueen.method.operators.lowrank import EPSILON, of_term, rebuilt, weighted_sum
from tests.method.operators import make


def spread(rows: int, rank: int, exponent: float, seed: int) -> torch.Tensor:
    """A [rows, rank] factor of condition number 10^exponent, fp32."""
    g = torch.Generator().manual_seed(seed)
    k = min(rows, rank)
    u = torch.linalg.qr(torch.randn(rows, k, generator=g, dtype=torch.float64))[0]
    v = torch.linalg.qr(torch.randn(rank, k, generator=g, dtype=torch.float64))[0]
    return (u * torch.logspace(0, -exponent, k, dtype=torch.float64) @ v.T).float()


ranks = st.one_of(st.integers(1, 12), st.sampled_from([32, 64, 128]))
conditions = st.floats(0, 9)


@settings(max_examples=60, deadline=None)
@example(n_in=55, n_out=4, rank=4, a=8.5625, b=0.0, seed=798)  # a sign that fp32 gets wrong
@given(
    n_in=st.integers(1, 150),
    n_out=st.integers(1, 150),
    rank=ranks,
    a=conditions,
    b=conditions,
    seed=st.integers(0, 999),
)
def test_components_are_those_of_the_dense_update_within_fp32s_rounding(
    n_in: int, n_out: int, rank: int, a: float, b: float, seed: int
) -> None:
    f = Factors(spread(n_in, rank, a, seed), spread(n_out, rank, b, seed + 1).T)
    found = of_term(f)
    dense = f.a.double() @ f.b.double()
    size = float(f.a.norm() * f.b.norm())
    tolerance = 4 * rank * EPSILON * size
    assert found.s.shape[0] <= min(n_in, rank, n_out)
    assert float((found.u * found.s @ found.vt - dense).norm()) <= tolerance
    wanted = torch.linalg.svdvals(dense)[: found.s.shape[0]]
    assert float((found.s - wanted).norm()) <= tolerance
    one = torch.eye(found.s.shape[0], dtype=torch.float64)
    assert float((found.u.T @ found.u - one).norm()) < 1e-12
    assert float((found.vt @ found.vt.T - one).norm()) < 1e-12
    weights = torch.arange(1, n_in + 1, dtype=torch.float64).sqrt()
    assert ((weights @ found.u) > -1e-12).all()


@settings(max_examples=60, deadline=None)
@example(n_in=126, n_out=125, rank=128, a=1.0, b=3.5, seed=1)  # many components just below the rounding error
@given(
    n_in=st.integers(1, 150),
    n_out=st.integers(1, 150),
    rank=ranks,
    a=conditions,
    b=conditions,
    seed=st.integers(0, 999),
)
def test_rebuilding_changes_nothing_whichever_way_an_update_is_split(
    n_in: int, n_out: int, rank: int, a: float, b: float, seed: int
) -> None:
    f = Factors(spread(n_in, rank, a, seed), spread(n_out, rank, b, seed + 1).T)
    child = rebuilt(of_term(f), [f])
    dense, got = f.a.double() @ f.b.double(), child.a.double() @ child.b.double()
    # Components below fp32's rounding error are dropped; nothing else is lost.
    assert float((got - dense).norm()) <= 4 * rank * EPSILON * float(f.a.norm() * f.b.norm())


def test_a_split_that_cancels_loses_nothing() -> None:
    g = torch.Generator().manual_seed(0)
    a, b = torch.randn(500, 8, generator=g), torch.randn(8, 400, generator=g)
    mix = spread(8, 8, 4, 3).double()
    f = Factors((a.double() @ mix).float(), (torch.linalg.inv(mix) @ b.double()).float())
    dense = f.a.double() @ f.b.double()
    child = rebuilt(of_term(f), [f])
    assert float((child.a.double() @ child.b.double() - dense).norm() / dense.norm()) < 1e-9


def test_nearly_parallel_columns_are_told_apart() -> None:
    g = torch.Generator().manual_seed(0)
    a = torch.randn(500, 8, generator=g, dtype=torch.float64)
    a[:, 1] = a[:, 0] + 1e-4 * a[:, 1]
    f = Factors(a, torch.randn(8, 400, generator=g, dtype=torch.float64))
    u, s, vt = of_term(f)
    dense = f.a @ f.b
    assert float((u * s @ vt - dense).norm() / dense.norm()) < 1e-13
    wanted = torch.linalg.svdvals(dense)[: len(s)]
    assert float(((s - wanted) / wanted).abs().max()) < 1e-9


@pytest.mark.parametrize("weights", [[0.5, 0.5], [1.4, -0.4], [0.0, 1.0]])
def test_a_weighted_sum_is_the_best_approximation_of_its_rank(weights: list[float]) -> None:
    terms = [Factors(spread(40, 5, 1, seed), spread(30, 5, 1, seed + 7).T) for seed in (1, 2)]
    child = weighted_sum(terms, weights)
    dense = torch.stack([w * make.dense(t) for w, t in zip(weights, terms, strict=True)]).sum(dim=0)
    left = float((make.dense(child) - dense).norm())
    least = float(torch.linalg.svdvals(dense)[5:].norm())
    assert left == pytest.approx(least, abs=make.rounding(terms, weights))
