"""The multi-adapter layer against the obvious loop: a plain linear layer and a product of two factors for each row."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from redqueen.adapters.linear import GroupedLowRank, MultiAdapterLinear, Routing, group_rows

IN, OUT, RANK, SLOTS, SCALE = 7, 5, 3, 4, 1.7


def layer(seed: int = 0, bias: bool = False, dtype: torch.dtype = torch.float32) -> MultiAdapterLinear:
    torch.manual_seed(seed)
    base = nn.Linear(IN, OUT, bias=bias, dtype=dtype).requires_grad_(False)
    made = MultiAdapterLinear(base, SLOTS, RANK, SCALE, Routing())
    with torch.no_grad():
        made.a.normal_()
        made.b.normal_()
    for slot in range(SLOTS):
        made.refresh(slot)
    return made


def loop(site: MultiAdapterLinear, x: Tensor, slots: list[int]) -> Tensor:
    rows = [
        site.base(row) + site.scale * (row @ site.a[slot]) @ site.b[slot] for row, slot in zip(x, slots, strict=True)
    ]
    return torch.stack(rows)


SLOT_RUNS = st.permutations(range(SLOTS)).flatmap(
    lambda order: st.lists(st.integers(0, 4), min_size=SLOTS, max_size=SLOTS).map(
        lambda counts: [slot for slot, count in zip(order, counts, strict=True) for _ in range(count)]
    )
)


@given(SLOT_RUNS.filter(len), st.sampled_from([(), (1,), (6,)]), st.booleans(), st.integers(0, 99))
def test_forward_and_backward_are_those_of_the_loop(
    slots: list[int], time: tuple[int, ...], bias: bool, seed: int
) -> None:
    site = layer(seed, bias)
    x = torch.randn(len(slots), *time, IN, requires_grad=True)
    dy = torch.randn(len(slots), *time, OUT)
    with site.routing.rows(slots):
        y = site(x)
    y.backward(dy)
    got = (y.detach(), x.grad, site.a.grad, site.b.grad)
    x.grad = site.a.grad = site.b.grad = None
    y = loop(site, x, slots)
    y.backward(dy)
    for one, other in zip(got, (y.detach(), x.grad, site.a.grad, site.b.grad), strict=True):
        assert one is not None
        assert other is not None
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_slots_without_rows_get_zero_gradient_and_the_base_none() -> None:
    site = layer()
    with site.routing.rows([2, 2, 0]):
        site(torch.randn(3, IN)).sum().backward()
    assert site.a.grad is not None
    assert site.b.grad is not None
    for slot in range(SLOTS):
        assert site.a.grad[slot].any() == site.b.grad[slot].any() == (slot in (0, 2))
    assert site.base.weight.grad is None


def test_one_members_loss_moves_only_that_member() -> None:
    site = layer()
    with site.routing.rows([0, 1, 1, 3]):
        y = site(torch.randn(4, 6, IN))
    y[1:3].pow(2).sum().backward()
    assert site.a.grad is not None
    assert [bool(grad.any()) for grad in site.a.grad] == [False, True, False, False]


def test_rows_see_their_own_member_only() -> None:
    site, x = layer(), torch.randn(5, 2, IN)
    with site.routing.rows([0, 0, 1, 3, 3]):
        before = site(x).detach()
        with torch.no_grad():
            site.a[1] += 1
        site.refresh(1)
        after = site(x).detach()
    changed = (before != after).flatten(1).any(1)
    assert changed.tolist() == [False, False, True, False, False]


def test_two_backward_passes_add_up() -> None:
    site, x = layer(), torch.randn(3, IN)
    with site.routing.rows([1, 1, 2]):
        site(x).sum().backward()
        assert site.a.grad is not None
        once = site.a.grad.clone()
        site(x).sum().backward()
    torch.testing.assert_close(site.a.grad, 2 * once)


@pytest.mark.parametrize("groups", [((1, 0, 4),), ((2, 0, 1), (0, 1, 4)), ((0, 0, 1), (1, 1, 2), (2, 2, 4))])
@pytest.mark.parametrize("wants", ["a b", "x a b"])
def test_the_gradient_is_the_derivative(groups: tuple[tuple[int, int, int], ...], wants: str) -> None:
    g = torch.Generator().manual_seed(0)

    def draw(name: str, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64).requires_grad_(name in wants.split())

    y, x, a, b = draw("y", 4, OUT), draw("x", 4, IN), draw("a", 3, IN, 2), draw("b", 3, 2, OUT)

    def added(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return GroupedLowRank.apply(y + 0 * x[:, :1], x, a, b, a.detach(), b.detach(), groups, SCALE)

    assert torch.autograd.gradcheck(added, (x, a, b))


def test_without_routing_the_layer_is_its_base() -> None:
    site, x = layer(bias=True), torch.randn(3, IN)
    assert torch.equal(site(x), site.base(x))
    with site.routing.rows([]):
        assert torch.equal(site(x), site.base(x))


def test_an_untrained_member_is_the_base_to_the_bit() -> None:
    site, x = layer(), torch.randn(4, 3, IN)
    with torch.no_grad():
        site.b[2] = 0
    site.refresh(2)
    with site.routing.rows([2] * 4):
        assert torch.equal(site(x), site.base(x))


def test_neither_the_input_nor_the_bases_weight_is_written_to() -> None:
    site, x = layer(), torch.randn(4, IN)
    weight, given = site.base.weight.clone(), x.clone()
    with site.routing.rows([0, 1, 2, 3]):
        site(x).sum().backward()
    assert torch.equal(site.base.weight, weight)
    assert torch.equal(x, given)


def test_the_products_use_the_bases_dtype_and_the_masters_stay_fp32() -> None:
    site = layer(dtype=torch.bfloat16)
    x = torch.randn(4, 2, IN, dtype=torch.bfloat16, requires_grad=True)
    with site.routing.rows([1, 1, 1, 3]):
        y = site(x)
    y.float().sum().backward()
    assert y.dtype == x.grad.dtype == site.a_copy.dtype == torch.bfloat16  # type: ignore[union-attr]
    assert site.a.dtype == site.b.dtype == site.a.grad.dtype == torch.float32  # type: ignore[union-attr]
    exact = layer()
    with torch.no_grad():
        for own, other in ((exact.base.weight, site.base.weight), (exact.a, site.a_copy), (exact.b, site.b_copy)):
            own.copy_(other)
    expected = loop(exact, x.detach().float(), [1, 1, 1, 3])
    torch.testing.assert_close(y.float(), expected, atol=0.3, rtol=0.05)


def test_a_change_of_the_masters_is_seen_after_a_refresh_of_that_slot_only() -> None:
    site, x = layer(), torch.randn(2, IN)
    with site.routing.rows([0, 1]):
        before = site(x).detach()
        with torch.no_grad():
            site.a.zero_()
        assert torch.equal(site(x), before)
        site.refresh(1)
        now = site(x).detach()
    assert torch.equal(now[0], before[0])
    torch.testing.assert_close(now[1], site.base(x)[1])


def test_copies_are_no_part_of_the_state() -> None:
    assert set(layer().state_dict()) == {"a", "b", "base.weight"}


@pytest.mark.parametrize("slots", [[0, 1, 0], [2, 2, 1, 2], [0, 1, 2, 0, 0]])
def test_unsorted_rows_are_refused_and_the_old_routing_stays(slots: list[int]) -> None:
    routing = Routing()
    with routing.rows([3]):
        with pytest.raises(ValueError, match="sort the batch by slot"), routing.rows(slots):
            raise AssertionError("the batch was routed")
        assert routing.groups == ((3, 0, 1),)
    assert routing.groups == ()


@given(SLOT_RUNS)
def test_groups_are_the_runs_of_equal_slots(slots: list[int]) -> None:
    groups = group_rows(slots)
    assert [slot for slot, start, end in groups for _ in range(start, end)] == slots
    assert all(start < end for _, start, end in groups)
    assert len({slot for slot, _, _ in groups}) == len(groups)


def test_routing_ends_with_its_block_even_after_an_error() -> None:
    routing = Routing()
    with pytest.raises(KeyError), routing.rows([1, 1]):
        raise KeyError
    assert routing.groups == ()


# Rows beyond the routed ones run without any adapter, and their gradient is uninitialised memory: no error says so.
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_a_batch_of_another_size_than_was_routed_is_refused(rows: int) -> None:
    site = layer()
    with site.routing.rows([0, 1]), pytest.raises((ValueError, RuntimeError)):
        site(torch.randn(rows, IN))
