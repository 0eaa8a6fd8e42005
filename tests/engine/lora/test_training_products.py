"""Compares the low-rank products with a plain loop: a linear layer and a product of two factors for each row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from redqueen.engine.kernels.torch_ops import packed, packs
from redqueen.engine.lora.products import SlicedMatmul, contiguous_runs, group_rows
from tests.engine.lora.sites import (
    CPU,
    EVEN,
    ODD,
    SLOT_RUNS,
    SLOTS,
    close,
    decoding,
    oracle,
    padded,
    runs,
    site_and_bank,
    tiled,
)


@given(slots=SLOT_RUNS, bias=st.booleans(), seed=st.integers(0, 99))
def test_forward_and_backward_are_those_of_the_loop_over_rows(slots: list[int], bias: bool, seed: int) -> None:
    site, bank = site_and_bank(ODD, seed, bias)
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(len(slots), ODD[0], generator=g).requires_grad_()
    dy = torch.randn(len(slots), sum(ODD[1]), generator=g)
    gradients = bank.gradients()
    y = site(x, bank.rows(slots, gradients=gradients))
    y.backward(dy)
    assert x.grad is not None
    for got, expected in zip((y, x.grad, gradients.flat), oracle(site, bank, x, slots, dy), strict=True):
        close(got, expected)


@given(slots=st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=12), bias=st.booleans(), seed=st.integers(0, 99))
def test_decoding_rows_in_any_order_are_those_of_the_loop_over_rows(slots: list[int], bias: bool, seed: int) -> None:
    site, bank = site_and_bank(ODD, seed, bias)
    x = torch.randn(len(slots), ODD[0], generator=torch.Generator().manual_seed(seed))
    expected = oracle(site, bank, x, slots, torch.zeros(len(slots), len(site.weight)))[0]
    for products in (padded(slots), tiled(bank, slots)):
        with torch.no_grad():
            close(site(x, bank.decoding(products, len(slots))), expected)


# Each shape at least once: equal and unequal groups, empty ones, one row, neighbouring and scattered slots.
@pytest.mark.parametrize("counts", [(2, 2, 2, 2), (0, 1, 0, 0), (9, 1, 0, 3), (1, 0, 0, 1), (0, 3, 3, 0), (5, 0, 0, 0)])
def test_every_kernel_gives_the_same_rows(counts: tuple[int, ...]) -> None:
    slots = runs(counts)
    site, bank = site_and_bank(EVEN)
    x, factors = torch.randn(len(slots), EVEN[0]), bank.stacked["x"]
    expected = oracle(site, bank, x, slots, torch.zeros(len(slots), sum(EVEN[1])))[0]
    products = (SlicedMatmul(group_rows(slots)), padded(slots), tiled(bank, slots))
    for way in products:
        y = F.linear(x, site.weight, site.bias)
        way.add(factors, x, y)
        close(y, expected)


@pytest.mark.parametrize("counts", [(4, 0, 0, 0), (0, 1, 0, 3), (1, 1, 0, 2)])
def test_the_gradients_of_input_and_masters_are_derivatives(counts: tuple[int, ...]) -> None:
    slots = runs(counts)
    site, bank = site_and_bank(ODD, dtype=torch.float64)
    x = torch.randn(len(slots), ODD[0], dtype=torch.float64, requires_grad=True)
    gradients = bank.gradients()
    rows = bank.rows(slots, gradients=gradients)
    assert torch.autograd.gradcheck(lambda x: site(x, rows), (x,))

    def set_masters(masters: Tensor) -> None:
        bank.masters.copy_(masters)
        for member in bank.slots:
            bank.refresh(member)

    # The masters' gradients are added to buffers, so this function hands them to gradcheck as autograd would.
    class Masters(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, masters: Tensor) -> Tensor:
            ctx.save_for_backward(masters.clone())
            set_masters(masters)
            return site(x.detach(), rows)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            set_masters(ctx.saved_tensors[0])
            gradients.flat.zero_()
            with torch.enable_grad():
                site(x.detach().requires_grad_(), rows).backward(grads[0])
            return gradients.flat.clone()

    start = bank.masters.clone().requires_grad_()
    assert torch.autograd.gradcheck(Masters.apply, (start,))


def test_two_backward_passes_add_up() -> None:
    site, bank = site_and_bank(ODD)
    gradients = bank.gradients()
    x, rows = torch.randn(3, ODD[0]).requires_grad_(), bank.rows([1, 1, 2], gradients=gradients)
    # The gradient of a sum is one number, expanded to all elements. Every kernel has to take such strides.
    site(x, rows).sum().backward()
    once = gradients.flat.clone()
    site(x, rows).sum().backward()
    torch.testing.assert_close(gradients.flat, 2 * once)


PACKS = pytest.mark.skipif(not packs(CPU, torch.bfloat16), reason="this torch or processor packs no weights")


@PACKS
@pytest.mark.parametrize("rows", [1, 3, 32])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_weights_give_the_same_products_to_bf16s_precision(rows: int, bias: bool) -> None:
    site, bank = site_and_bank((48, (24, 20, 16), 4), bias=bias, dtype=torch.bfloat16)
    x, slots = torch.randn(rows, 48).bfloat16(), [row % SLOTS for row in range(rows)]
    ready = replace(site, packed=packed(site.weight))
    with torch.no_grad():
        for announced in (None, decoding(bank, slots)):
            close(ready(x, announced), site(x, announced).double(), 0.02)
        close(
            ready(x),
            F.linear(x.double(), site.weight.double(), None if site.bias is None else site.bias.double()),
            0.02,
        )
    assert packed(torch.zeros(32, 32)) is None, "the operator is for bf16"


def test_neighbours_are_runs_of_slots() -> None:
    assert contiguous_runs([]) == []
    assert contiguous_runs([4, 2, 1, 2, 7]) == [slice(1, 3), slice(4, 5), slice(7, 8)]
