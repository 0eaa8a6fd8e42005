"""Checks that a site computes the base plus each row's own member, and nothing else."""

from __future__ import annotations

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from redqueen.engine.lora.products import group_rows
from redqueen.engine.lora.sites import Site
from tests.engine.lora.sites import (
    EVEN,
    ODD,
    SLOT_RUNS,
    TARGETS,
    close,
    decoding,
    oracle,
    site_and_bank,
)


def test_only_the_members_with_rows_get_a_gradient_and_only_from_their_own() -> None:
    site, bank = site_and_bank(ODD)
    gradients = bank.gradients()
    y = site(torch.randn(4, ODD[0]).requires_grad_(), bank.rows([0, 1, 1, 3], gradients=gradients))
    y[1:3].pow(2).sum().backward()
    assert [bool(row.any()) for row in gradients.flat] == [False, True, False, False]


def test_rows_see_their_own_member_only() -> None:
    site, bank = site_and_bank(ODD)
    x, slots = torch.randn(5, ODD[0]), [0, 0, 1, 3, 3]
    with torch.no_grad():
        before = [site(x, rows) for rows in (bank.rows(slots), decoding(bank, slots))]
        bank.masters[1] += 1
        bank.refresh("1")
        after = [site(x, rows) for rows in (bank.rows(slots), decoding(bank, slots))]
    for old, new in zip(before, after, strict=True):
        assert (old != new).any(1).tolist() == [False, False, True, False, False]


def test_a_part_left_out_of_the_targets_is_the_base_to_the_bit() -> None:
    site, bank = site_and_bank(EVEN)
    x = torch.randn(4, EVEN[0])
    slots = [0, 1, 1, 3]
    left_out = slice(site.projections[1].start, site.projections[1].end)
    plain = site(x, None)
    for rows in (bank.rows(slots), decoding(bank, slots)):
        with torch.no_grad():
            y = site(x, rows)
        assert torch.equal(y[:, left_out], plain[:, left_out])
        assert (y != plain).any(0).sum() == len(site.weight) - (left_out.stop - left_out.start)


@pytest.mark.parametrize("bias", [False, True])
def test_without_rows_or_factors_a_site_is_its_base(bias: bool) -> None:
    site, bank = site_and_bank(ODD, bias=bias)
    x = torch.randn(3, ODD[0])
    expected = F.linear(x, site.weight, site.bias)
    assert torch.equal(site(x, None), expected)
    assert torch.equal(Site("elsewhere", site.weight, site.bias, site.projections)(x, bank.rows([0, 0, 1])), expected)


def test_an_untrained_member_is_the_base_to_the_bit() -> None:
    site, bank = site_and_bank(EVEN)
    for name in TARGETS:
        bank.places[f"x.{name}"].views(bank.masters[2])[1].zero_()
    bank.refresh("2")
    x = torch.randn(4, EVEN[0])
    with torch.no_grad():
        for rows in (bank.rows([2] * 4), decoding(bank, [2] * 4)):
            assert torch.equal(site(x, rows), site(x, None))


def test_neither_the_input_nor_the_bases_weights_are_written_to() -> None:
    site, bank = site_and_bank(ODD)
    x = torch.randn(4, ODD[0]).requires_grad_()
    assert site.bias is not None
    before = [t.detach().clone() for t in (x, site.weight, site.bias, bank.masters)]
    site(x, bank.rows([0, 1, 2, 3], gradients=bank.gradients())).sum().backward()
    for old, now in zip(before, (x, site.weight, site.bias, bank.masters), strict=True):
        assert torch.equal(old, now)


def test_the_products_use_the_bases_dtype_and_masters_and_gradients_stay_fp32() -> None:
    sizes = (16, (8, 16, 24), 8)
    site, bank = site_and_bank(sizes, dtype=torch.bfloat16)
    x = torch.randn(4, 16).bfloat16().requires_grad_()
    dy = torch.randn(4, 48).bfloat16()
    gradients = bank.gradients()
    y = site(x, bank.rows([1, 1, 1, 3], gradients=gradients))
    y.backward(dy)
    assert x.grad is not None
    assert y.dtype == x.grad.dtype == bank.stacked["x"].a_copy.dtype == torch.bfloat16
    assert bank.masters.dtype == gradients.flat.dtype == torch.float32
    for got, expected in zip((y, x.grad, gradients.flat), oracle(site, bank, x, [1, 1, 1, 3], dy), strict=True):
        close(got, expected, 0.02)


def test_a_change_of_the_masters_is_seen_after_a_refresh_of_that_member_only() -> None:
    site, bank = site_and_bank(ODD)
    x, rows = torch.randn(2, ODD[0]), bank.rows([0, 1])
    with torch.no_grad():
        before = site(x, rows)
        bank.masters.zero_()
        assert torch.equal(site(x, rows), before)
        bank.refresh("1")
        now = site(x, rows)
    assert torch.equal(now[0], before[0])
    torch.testing.assert_close(now[1], site(x, None)[1])


@pytest.mark.parametrize("slots", [[0, 1, 0], [2, 2, 1, 2], [0, 1, 2, 0, 0]])
def test_rows_of_one_member_that_are_no_neighbours_are_refused(slots: list[int]) -> None:
    with pytest.raises(ValueError, match="sort the batch by slot"):
        group_rows(slots)


@given(SLOT_RUNS, st.data())
def test_groups_are_the_runs_of_equal_slots(slots: list[int], data: st.DataObject) -> None:
    groups = group_rows(slots)
    assert list(chain.from_iterable([slot] * (end - start) for slot, start, end in groups)) == slots
    assert all(start < end for _, start, end in groups)
    assert len({slot for slot, _, _ in groups}) == len(groups)
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=len(slots), max_size=len(slots)))
    spread = list(chain.from_iterable([slot] * length for slot, length in zip(slots, lengths, strict=True)))
    assert group_rows(slots, lengths) == group_rows(spread)


@pytest.mark.parametrize("way", ["rows", "decoding"])
def test_a_pass_with_gradients_on_and_no_place_for_the_members_is_refused(way: str) -> None:
    site, bank = site_and_bank(EVEN)
    adapters = bank.rows([0, 1]) if way == "rows" else decoding(bank, [0, 1])
    with pytest.raises(ValueError, match="no tensor for the members'"):
        site(torch.randn(2, EVEN[0]), adapters)


# Without this check, rows beyond the expected ones would silently run without an adapter.
@pytest.mark.parametrize("rows", [1, 3, 5])
@pytest.mark.parametrize("name", ["training", "padded", "scattered"])
def test_a_batch_of_another_size_than_was_announced_is_refused(name: str, rows: int) -> None:
    site, bank = site_and_bank(EVEN)
    adapters = {
        "training": lambda: bank.rows([0, 1]),
        "padded": lambda: decoding(bank, [0, 1]),
        "scattered": lambda: decoding(bank, [3, 0]),
    }[name]()
    with torch.no_grad(), pytest.raises(ValueError, match=f"{rows} rows, but the members of 2 are known"):
        site(torch.randn(rows, EVEN[0]), adapters)
