"""Provides a site of three layers with members of several ranks, and a plain loop over its rows as the reference."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.lora.products import PaddedBmm, TiledProducts
from redqueen.engine.lora.sites import Projection, RowAdapters, Site
from tests.reference import noisy

SLOTS, ALPHA = 4, 5.1
CPU = torch.device("cpu")
# Inputs, outputs of each layer, rank. ODD has widths without a common factor.
ODD = (7, (5, 3, 2), 3)
EVEN = (16, (8, 12, 16), 4)
# q and v have factors; k is left out of the targets.
NAMES = ("x.q_proj", "x.k_proj", "x.v_proj")
TARGETS = ("q_proj", "v_proj")


def site_and_bank(
    sizes: tuple[int, tuple[int, ...], int], seed: int = 0, bias: bool = True, dtype: torch.dtype = torch.float32
) -> tuple[Site, AdapterBank]:
    """Returns a site of three layers and a full bank of members "0", "1", ..., of which the last has half the rank."""
    fan_in, widths, rank = sizes
    g = torch.Generator().manual_seed(seed)
    parts = tuple(Projection(name, sum(widths[:j]), sum(widths[: j + 1])) for j, name in enumerate(NAMES))
    weight = torch.randn(sum(widths), fan_in, generator=g).to(dtype) / fan_in**0.5
    site = Site("x", weight, torch.randn(sum(widths), generator=g).to(dtype) if bias else None, parts)
    master = torch.float64 if dtype == torch.float64 else torch.float32
    bank = AdapterBank([site], SLOTS, rank, ALPHA, TARGETS, master=master)
    for slot in range(SLOTS):
        bank.add(str(slot), noisy(bank, 10 * seed + slot, rank if slot < SLOTS - 1 else max(1, rank // 2), b=0.7))
    return site, bank


def padded(slots: Sequence[int]) -> PaddedBmm:
    """Returns padded products of rows that belong to `slots`."""
    products = PaddedBmm(CPU)
    products.assign(slots)
    return products


def tiled(bank: AdapterBank, slots: Sequence[int]) -> TiledProducts:
    """Returns products in tiles, as on a GPU, of rows that belong to `slots`, with room for some more."""
    products = TiledProducts(bank.stacked.values(), len(bank.masters), len(slots) + 5, CPU)
    products.assign(slots)
    return products


def decoding(bank: AdapterBank, slots: Sequence[int]) -> RowAdapters:
    """Returns the adapters of a decoding step whose rows belong to `slots`."""
    return bank.decoding(padded(slots), len(slots))


def oracle(site: Site, bank: AdapterBank, x: Tensor, slots: Sequence[int], dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns y, the gradient of x and that of all masters [slots, P], computed row by row in float64 by autograd."""
    masters = bank.masters.detach().clone().double().requires_grad_()
    x = x.detach().double().requires_grad_()
    bias = None if site.bias is None else site.bias.double()
    outputs: list[Tensor] = []
    for row, slot in zip(x, slots, strict=True):
        y = F.linear(row, site.weight.double(), bias)
        for part in site.projections:
            if part.name in bank.places:
                a, b = bank.places[part.name].views(masters[slot])
                y = y + F.pad(bank.scales[slot] * (row @ a) @ b, (part.start, len(site.weight) - part.end))
        outputs.append(y)
    y = torch.stack(outputs)
    y.backward(dy.double())
    assert x.grad is not None
    assert masters.grad is not None
    return y.detach(), x.grad, masters.grad


def close(got: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    """Asserts that both are equal, to `tolerance` of the largest number."""
    assert (got.double() - expected).abs().max() <= tolerance * max(1.0, expected.abs().max().item())


def runs(counts: Sequence[int], order: Sequence[int] = range(SLOTS)) -> list[int]:
    """Returns `counts[i]` rows of the slot `order[i]`, for all i."""
    rows: list[int] = []
    for slot, count in zip(order, counts, strict=True):
        rows += [slot] * count
    return rows


COUNTS = st.lists(st.integers(0, 5), min_size=SLOTS, max_size=SLOTS).filter(any)
SLOT_RUNS = st.tuples(COUNTS, st.permutations(range(SLOTS))).map(lambda drawn: runs(*drawn))
