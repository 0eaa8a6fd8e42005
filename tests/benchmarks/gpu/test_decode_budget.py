"""What a decode step may launch on a GPU, counted at the shape of a 7B model with 4 members."""

from __future__ import annotations

import pytest

from benchmarks.gpu.launches import decode_step_cost, sampling_cost
from benchmarks.gpu.shapes import SEVEN_B


# Of a layer: 4 products, 8 low-rank products, 2 norms, rotary embeddings with the write to the cache, SwiGLU and
# attention. It was 65.
@pytest.mark.parametrize("rows", [8, 512])
def test_a_layer_of_a_decode_step_launches_few_kernels(rows: int) -> None:
    step = decode_step_cost(SEVEN_B, rows, 1500)
    assert step.layer.launches <= 17
    assert step.once.launches <= 24


def test_pages_add_a_few_kernels_to_a_step_and_none_to_a_layer() -> None:
    step = decode_step_cost(SEVEN_B, 64, 1500, paged=True)
    assert step.layer.launches <= 17
    assert step.once.launches <= 33


def test_the_head_and_the_draw_launch_few_kernels() -> None:
    assert sampling_cost(SEVEN_B, 512).launches <= 40
