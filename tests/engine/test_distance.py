"""The distance of two updates against the dense oracle."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from redqueen.engine.adapters import Adapter, Factors, relative_distance

SITES = {"q": (6, 4), "up": (5, 9)}


def adapter(seed: int, rank: int = 3, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> dict[str, Factors]:
    g = torch.Generator().manual_seed(seed)
    return {
        name: Factors(
            (torch.randn(i, rank, generator=g) * scale).to(dtype), torch.randn(rank, o, generator=g).to(dtype)
        )
        for name, (i, o) in SITES.items()
    }


def dense(x: Adapter, y: Adapter) -> float:
    def flat(a: Adapter) -> torch.Tensor:
        return torch.cat([(a[name].a.double() @ a[name].b.double()).flatten() for name in SITES])

    return float((flat(x) - flat(y)).norm() / max(flat(x).norm(), flat(y).norm()))


@given(st.integers(0, 1000), st.integers(0, 1000), st.floats(1e-3, 1e3), st.integers(1, 7))
def test_it_is_the_dense_formula_and_a_symmetric_one(one: int, two: int, scale: float, rank: int) -> None:
    x, y = adapter(one, rank), adapter(two, 3, scale)
    assert relative_distance(x, y) == pytest.approx(dense(x, y), abs=1e-6)
    assert relative_distance(x, y) == pytest.approx(relative_distance(y, x), abs=1e-7)
    assert 0.0 <= relative_distance(x, y) <= 2.0 + 1e-9


def test_what_the_factors_say_differently_is_the_same_update() -> None:
    x = adapter(1)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0)))[0]
    turned = {name: Factors(f.a @ turn * 4, turn.T @ f.b / 4) for name, f in x.items()}
    assert relative_distance(x, turned) < 1e-6
    assert relative_distance(x, x) < 1e-7


def test_opposites_are_two_apart_and_zero_is_one_away_from_anything() -> None:
    x = adapter(2)
    assert relative_distance(x, {n: Factors(-f.a, f.b) for n, f in x.items()}) == pytest.approx(2.0)
    nothing = {n: Factors(f.a, torch.zeros_like(f.b)) for n, f in x.items()}
    assert relative_distance(x, nothing) == pytest.approx(1.0)
    assert relative_distance(nothing, nothing) == 0.0


def test_bf16_factors_are_taken_as_they_are() -> None:
    x, y = adapter(1, dtype=torch.bfloat16), adapter(2, dtype=torch.bfloat16)
    assert relative_distance(x, y) == pytest.approx(dense(x, y), abs=1e-6)


def test_other_sites_are_refused() -> None:
    x = adapter(1)
    with pytest.raises(ValueError, match="differ in sites"):
        relative_distance(x, {"q": x["q"]})
