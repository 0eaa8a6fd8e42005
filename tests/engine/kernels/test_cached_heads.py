"""Norms, rotation and the write to the cache of a decode step, against one row and head at a time in float64."""

from __future__ import annotations

import pytest
import torch

from redqueen.engine.kernels.cached_heads import cached_heads

QUERIES, KV, SIZE, ROOM, EPS = 6, 2, 16, 9, 1e-6
# A norm computes its unit vector in float32, also of float64.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
PLACES = (0, 8, 3, 5)


@pytest.mark.parametrize("normed", [False, True])
def test_every_head_is_normed_turned_and_put_in_its_place(normed: bool) -> None:
    rows = len(PLACES)
    qkv = torch.randn(rows, QUERIES + 2 * KV, SIZE, dtype=torch.float64)
    angle = torch.rand(rows, SIZE // 2, dtype=torch.float64)
    cos, sin = (half.repeat(1, 2)[:, None] for half in (angle.cos(), angle.sin()))
    weights = torch.rand(2, SIZE, dtype=torch.float64) if normed else torch.empty(2, 0, dtype=torch.float64)
    # What a row has not reached is not initialised, and stays as it was.
    before = torch.full((2, rows, KV, ROOM, SIZE), float("nan"), dtype=torch.float64)
    keys, values = before.clone()
    q = cached_heads(qkv, cos, sin, *weights, EPS, torch.arange(rows), torch.tensor(PLACES), keys, values)

    def turned(row: int, head: int, weight: torch.Tensor) -> torch.Tensor:
        x = qkv[row, head]
        if normed:
            x = weight * x / (x.square().mean() + EPS).sqrt()
        pairs = torch.complex(x[: SIZE // 2], x[SIZE // 2 :]) * torch.polar(torch.ones_like(angle[row]), angle[row])
        return torch.cat([pairs.real, pairs.imag])

    expected_keys, expected_values = before.clone()
    for row, place in enumerate(PLACES):
        for head in range(QUERIES):
            torch.testing.assert_close(q[row, head], turned(row, head, weights[0]), **CLOSE)
        for head in range(KV):
            expected_keys[row, head, place] = turned(row, QUERIES + head, weights[1])
            expected_values[row, head, place] = qkv[row, QUERIES + KV + head]
    torch.testing.assert_close(keys, expected_keys, equal_nan=True, **CLOSE)
    torch.testing.assert_close(values, expected_values, rtol=0, atol=0, equal_nan=True)
