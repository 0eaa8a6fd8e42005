"""The counter of kernels, on meta tensors."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.gpu.counting import counting
from benchmarks.gpu.launches import decode_step_cost, sampling_cost
from benchmarks.gpu.shapes import SEVEN_B

META = torch.device("meta")


def test_products_are_counted_with_their_bytes_and_flops_also_in_inference_mode() -> None:
    x, weight = torch.empty(3, 5, device=META), torch.empty(7, 5, device=META)
    for mode in (torch.inference_mode(), torch.no_grad()):
        with mode, counting() as counter:
            F.linear(x, weight).relu_().view(7, 3).t()
        assert {name: cost.launches for name, cost in counter.costs.items()} == {"mm": 1, "relu_": 1}
        assert counter.costs["mm"].flops == 2 * 3 * 5 * 7
        assert counter.costs["mm"].bytes == 4 * (3 * 5 + 5 * 7 + 3 * 7)
        assert counter.costs["relu_"].bytes == 2 * 4 * 3 * 7


def test_what_a_lookup_reads_does_not_depend_on_the_size_of_the_table() -> None:
    with counting() as counter:
        F.embedding(torch.empty(4, dtype=torch.long, device=META), torch.empty(1000, 8, device=META))
    assert counter.total.bytes == 2 * 4 * 4 * 8


def test_memory_that_is_freed_is_no_longer_counted() -> None:
    weight = torch.empty(1 << 20, device=META)
    with counting() as counter:
        first = weight + 1
        del first
        second = weight[::2] + 1
    assert counter.peak == 4 << 20
    assert counter.live == second.nbytes == 2 << 20


def test_a_view_written_back_onto_itself_launches_only_the_sum() -> None:
    y = torch.empty(4, 8, device=META)
    with counting() as counter:
        y[:, :2] += 1
    assert counter.total.launches == 1


def test_a_compiled_function_is_one_kernel() -> None:
    x = torch.empty(8, 8, device=META)
    with counting() as counter:
        out = torch.compile(lambda a: a.float().square().mean(-1, keepdim=True) * a)(x)
    assert out.shape == x.shape
    assert counter.total.launches == 1
    assert counter.total.bytes == 2 * x.nbytes


def test_a_decode_step_of_a_7b_model_is_counted_without_its_weights() -> None:
    step = decode_step_cost(SEVEN_B, 128, 100)
    head = sampling_cost(SEVEN_B, 128)
    # A layer multiplies each row with 233 million weights of the base, and with adapters of rank 32.
    assert 233e6 < step.layer.flops / 2 / 128 < 250e6
    assert step.layer.launches > 4
    # In bf16 the head alone is 1.1 GB.
    assert head.bytes > 2 * SEVEN_B.vocabulary * SEVEN_B.hidden
