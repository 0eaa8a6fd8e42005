"""Checks the adapter bank: members' slots over one frozen base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from redqueen.engine.adapters import Factors, fresh, perturb, relative_distance
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.lora.sites import Projection, Site
from redqueen.engine.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.engine.model.base import Base, fingerprint
from redqueen.engine.model.decoder import FAMILIES
from redqueen.errors import AdapterError
from tests.reference import LOGIT_ROUNDING, doubled, logits, member_logits, merged, noisy, same

TARGETS = ("q_proj", "v_proj", "down_proj")
RANK, ALPHA = 2, 6.0
IDS = torch.tensor([[5, 6, 7, 8], [9, 8, 7, 6]])


@pytest.fixture
def base(tiny_base: Base) -> Base:
    return tiny_base


@pytest.fixture
def bank(base: Base) -> AdapterBank:
    return AdapterBank(base.decoder.sites, 3, RANK, ALPHA, TARGETS)


def run(base: Base, bank: AdapterBank, members: str, ids: Tensor = IDS) -> Tensor:
    return torch.stack(member_logits(base, bank, list(members), ids.tolist()))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_targeted_layer_of_every_family_has_a_place(new_base: Callable[..., Base], family: str) -> None:
    base = new_base(family)
    linear = {name for name, module in base.model.named_modules() if isinstance(module, nn.Linear)}
    bank = AdapterBank(base.decoder.sites, 1, RANK, ALPHA, TARGETS)
    assert set(bank.shapes()) == {name for name in linear if name.endswith(TARGETS)}
    assert len(bank.shapes()) == 2 * len(TARGETS)
    assert bank.shapes()["model.layers.1.mlp.down_proj"] == (64, 32)
    for name, (fan_in, fan_out) in bank.shapes().items():
        assert base.model.get_submodule(name).weight.shape == (fan_out, fan_in)


@pytest.mark.parametrize("family", FAMILIES)
def test_members_in_one_batch_get_what_each_gets_alone(new_base: Callable[..., Base], family: str) -> None:
    base = new_base(family)
    bank = AdapterBank(base.decoder.sites, 3, RANK, ALPHA, TARGETS)
    for seed, name in enumerate("abc"):
        bank.add(name, noisy(bank, seed))
    ids = torch.randint(0, 200, (5, 9), generator=torch.Generator().manual_seed(0))
    together = run(base, bank, "aabcc", ids)
    for rows, name in (((0, 1), "a"), ((2,), "b"), ((3, 4), "c")):
        alone = run(base, bank, name * len(rows), ids[list(rows)])
        torch.testing.assert_close(together[list(rows)], alone, atol=LOGIT_ROUNDING, rtol=0)
    assert not torch.allclose(together[0], run(base, bank, "b", ids[:1])[0], atol=1e-2)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rank", [1, RANK])
def test_a_member_is_the_base_with_its_update_merged(new_base: Callable[..., Base], family: str, rank: int) -> None:
    # Merging in float64 adds no rounding error that matters. Both compute the norms in float32.
    base = doubled(new_base(family))
    bank = AdapterBank(base.decoder.sites, 1, RANK, ALPHA, TARGETS)
    bank.add("a", noisy(bank, rank=rank))
    with torch.no_grad():
        expected = merged(base, bank, "a")(IDS).logits
        assert (expected - base.model(IDS).logits).abs().max() > 0.1
    torch.testing.assert_close(run(base, bank, "aa"), expected, atol=1e-6, rtol=1e-6)


def test_neither_a_bank_nor_its_members_change_the_model_by_itself(new_base: Callable[..., Base]) -> None:
    base = new_base()
    with torch.no_grad():
        expected = base.model(IDS).logits
        bank = AdapterBank(base.decoder.sites, 1, RANK, ALPHA, TARGETS)
        bank.add("a", noisy(bank, 0))
        run(base, bank, "aa")
        assert torch.equal(base.model(IDS).logits, expected)


def test_a_fresh_adapter_is_the_base_to_the_bit(base: Base, bank: AdapterBank) -> None:
    bank.add("a", fresh(bank.shapes(), RANK, torch.Generator().manual_seed(0)))
    assert torch.equal(run(base, bank, "aa"), torch.stack(logits(base.decoder, IDS.tolist())))


def test_no_weight_of_the_base_takes_a_gradient_and_its_fingerprint_stays(new_base: Callable[..., Base]) -> None:
    base = new_base()
    before = fingerprint(base.model)
    bank = AdapterBank(base.decoder.sites, 2, RANK, ALPHA, TARGETS)
    bank.add("a", noisy(bank, 0))
    assert fingerprint(base.model) == before
    assert backward(base, bank, "a")[0].any()
    assert all(p.grad is None for p in base.model.parameters())
    assert fingerprint(base.model) == before


def backward(base: Base, bank: AdapterBank, member: str) -> torch.Tensor:
    """Returns all members' gradients of a loss of one member's hidden states, through the decoder."""
    gradients, attention = bank.gradients(), SharedPrefixAttention([SharedPrefix(0, 5)], bank.masters.device)
    assert not gradients.flat.any()
    rows = bank.rows([bank.slots[member]], [5], gradients)
    base.decoder.hidden(torch.arange(5) + 7, torch.arange(5), attention, rows).pow(2).sum().backward()
    return gradients.flat


def test_what_is_added_is_read_back_as_a_copy(bank: AdapterBank) -> None:
    adapter = noisy(bank, 0)
    bank.add("a", adapter)
    read = bank.read("a")
    assert same(read, adapter)
    for factors in read.values():
        factors.a.zero_()
    assert same(bank.read("a"), adapter)
    for factors in adapter.values():
        factors.b.fill_(7)
    assert not same(bank.read("a"), adapter)


class _Moves(TorchFunctionMode):
    """Counts the calls that move a tensor between devices."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in ("cpu", "cuda", "to", "item", "tolist", "numpy"):
            self.count[func.__name__] += 1
        return func(*args, **(kwargs or {}))


def test_a_member_leaves_and_enters_a_device_in_one_copy(bank: AdapterBank) -> None:
    bank.add("a", noisy(bank, 1))
    with _Moves() as out:
        adapter = bank.read("a")
    with _Moves() as back:
        bank.pack(adapter)
    assert out.count == {"cpu": 1}
    assert back.count == {"to": 1}


def test_members_do_not_share_weights(bank: AdapterBank) -> None:
    bank.add("a", noisy(bank, 0))
    bank.add("b", noisy(bank, 1))
    bank.write("a", noisy(bank, 2))
    assert same(bank.read("a"), noisy(bank, 2))
    assert same(bank.read("b"), noisy(bank, 1))


def test_a_change_of_a_members_masters_is_in_play_after_its_refresh(base: Base, bank: AdapterBank) -> None:
    bank.add("a", noisy(bank, 0))
    bank.add("b", noisy(bank, 1))
    before = run(base, bank, "ab")
    bank.masters[bank.slots["a"]].mul_(0.5)
    assert torch.equal(run(base, bank, "ab"), before)
    bank.refresh("a")
    after = run(base, bank, "ab")
    assert not torch.equal(after[0], before[0])
    assert torch.equal(after[1], before[1])
    first = next(iter(bank.places))
    assert torch.equal(bank.read("a")[first].a, 0.5 * noisy(bank, 0)[first].a)


@given(st.permutations(range(6)), st.integers(0, 6))
def test_members_refreshed_together_are_as_refreshed_one_by_one(order: list[int], count: int) -> None:
    site = Site("x", torch.randn(7, 5), None, (Projection("x.q_proj", 0, 4), Projection("x.v_proj", 4, 7)))
    banks = [AdapterBank([site], 6, 3, ALPHA, ("q_proj", "v_proj")) for _ in range(2)]
    for bank in banks:
        for slot in range(6):
            bank.add(str(slot), noisy(bank, slot, rank=1 + slot % 3))
        bank.masters.mul_(2)
    members = [str(slot) for slot in order[:count]]
    banks[0].refresh(*members)
    for member in members:
        banks[1].refresh(member)
    together, alone = (bank.stacked["x"] for bank in banks)
    assert torch.equal(together.a_copy, alone.a_copy)
    assert torch.equal(together.b_copy, alone.b_copy)
    stale = [slot for slot in range(6) if str(slot) not in members]
    assert torch.equal(together.a_copy[stale], together.a[stale] / 2)


def test_gradients_begin_at_zero_and_lie_as_the_masters_do(base: Base, bank: AdapterBank) -> None:
    bank.add("a", noisy(bank, 0))
    bank.add("b", noisy(bank, 1))
    gradients = backward(base, bank, "b")
    assert not gradients[bank.slots["a"]].any()
    found = bank.unpack("b", gradients[bank.slots["b"]])
    assert found.keys() == bank.read("b").keys()
    assert all(factors.a.any() and factors.b.any() for factors in found.values())


# Sites of several layers, of which one may be left out of the targets.
SITES = [
    Site("m", torch.zeros(9, 5), None, (Projection("m.q", 0, 4), Projection("m.k", 4, 6), Projection("m.v", 6, 9))),
    Site("n", torch.zeros(5, 3), None, (Projection("n.q", 0, 5),)),
]


@given(
    st.sampled_from([("q",), ("k", "v"), ("q", "v"), ("q", "k", "v")]), st.integers(1, 4), st.data(), st.integers(0, 99)
)
def test_packing_and_unpacking_are_inverse(targets: tuple[str, ...], rank: int, data: st.DataObject, seed: int) -> None:
    bank = AdapterBank(SITES, 2, rank, 1.0, targets)
    adapter_rank = data.draw(st.integers(1, rank))
    adapter = noisy(bank, seed, adapter_rank)
    bank.add("a", adapter)
    vector = bank.pack(adapter)
    assert same(bank.unpack("a", vector), adapter)
    assert torch.equal(vector, bank.masters[0])
    # Each number of the adapter has a place of its own, and all other places are zero.
    assert vector.count_nonzero() == sum(f.a.numel() + f.b.numel() for f in adapter.values())
    if adapter_rank == rank:
        any_vector = torch.randn(len(vector), generator=torch.Generator().manual_seed(seed))
        assert torch.equal(bank.pack(bank.unpack("a", any_vector)), any_vector)


def test_members_of_lower_rank_keep_their_own_rank_and_scale(base: Base) -> None:
    wide = AdapterBank(base.decoder.sites, 2, 4, ALPHA, TARGETS)
    tight = AdapterBank(base.decoder.sites, 1, 1, ALPHA, TARGETS)
    wide.add("other", noisy(wide, 1))
    adapter = noisy(wide, 0, rank=1)
    wide.add("a", adapter)
    tight.add("a", adapter)
    assert same(wide.read("a"), adapter)
    assert wide.scales == [ALPHA / 4, ALPHA]
    torch.testing.assert_close(run(base, wide, "aa"), run(base, tight, "aa"), atol=LOGIT_ROUNDING, rtol=0)
    wide.write("a", noisy(wide, 2))
    assert wide.scales == [ALPHA / 4, ALPHA / 4]
    assert same(wide.read("a"), noisy(wide, 2))


def test_a_slot_used_again_at_a_lower_rank_keeps_nothing_of_the_former_member(base: Base) -> None:
    used, new = (AdapterBank(base.decoder.sites, 1, 4, ALPHA, TARGETS) for _ in range(2))
    used.add("before", noisy(used, 1))
    used.retire("before")
    for bank in (used, new):
        bank.add("a", noisy(bank, 0, rank=2))
    assert torch.equal(used.masters, new.masters)
    assert torch.equal(run(base, used, "aa"), run(base, new, "aa"))


def test_a_retired_members_slot_is_given_to_the_next(bank: AdapterBank) -> None:
    for name in "abc":
        bank.add(name, noisy(bank, 0))
    slot = bank.slots["b"]
    bank.retire("b")
    assert bank.add("d", noisy(bank, 5)) == slot
    assert same(bank.read("d"), noisy(bank, 5))
    assert "b" not in bank.slots


def test_a_full_bank_and_a_known_name_are_refused(bank: AdapterBank) -> None:
    for name in "abc":
        bank.add(name, noisy(bank, 0))
    with pytest.raises(AdapterError, match="no free slot for member 'd': the bank holds 3"):
        bank.add("d", noisy(bank, 0))
    bank.retire("c")
    with pytest.raises(AdapterError, match="member 'a' is in the bank already"):
        bank.add("a", noisy(bank, 0))


def misfits(bank: AdapterBank) -> dict[str, dict[str, Factors]]:
    good, first = noisy(bank, 1), next(iter(bank.places))
    wide = {n: Factors(torch.cat([f.a, f.a], 1), torch.cat([f.b, f.b], 0)) for n, f in good.items()}
    return {
        "site missing": {n: f for n, f in good.items() if n != first},
        "site too many": {**good, "model.layers.9.self_attn.q_proj": good[first]},
        "rank": wide,
        "shape": {**good, first: Factors(good[first].a[1:], good[first].b)},
        "rank of A and B": {n: Factors(f.a[:, :1], f.b) for n, f in good.items()},
        "last only": {**good, list(good)[-1]: wide[list(good)[-1]]},
        "empty": {},
    }


@pytest.mark.parametrize(
    "which", ["site missing", "site too many", "rank", "shape", "rank of A and B", "last only", "empty"]
)
def test_a_misfitting_adapter_is_refused_and_the_member_stays_as_it_was(bank: AdapterBank, which: str) -> None:
    bank.add("a", noisy(bank, 0))
    with pytest.raises(AdapterError) as caught:
        bank.write("a", misfits(bank)[which])
    assert "\n" not in str(caught.value)
    assert same(bank.read("a"), noisy(bank, 0))


# `add` has to check the weights before it takes a slot and the name.
@pytest.mark.parametrize("which", ["site missing", "rank"])
def test_a_refused_newcomer_leaves_neither_name_nor_slot_behind(bank: AdapterBank, which: str) -> None:
    slots, free = dict(bank.slots), list(bank.free)
    with pytest.raises(AdapterError):
        bank.add("a", misfits(bank)[which])
    assert (bank.slots, bank.free) == (slots, free)


def test_a_target_that_the_model_lacks_is_refused_by_name(base: Base) -> None:
    with pytest.raises(AdapterError, match=r"no module named c_attn, w1 \(model.targets\)"):
        AdapterBank(base.decoder.sites, 1, RANK, ALPHA, ("q_proj", "w1", "c_attn"))


def test_a_fresh_a_is_drawn_as_peft_draws_it() -> None:
    adapter = fresh({"x.q_proj": (4096, 8)}, 32, torch.Generator().manual_seed(0))
    a, bound = adapter["x.q_proj"].a, 4096**-0.5
    reference = torch.empty(32, 4096)
    torch.nn.init.kaiming_uniform_(reference, a=5**0.5, generator=torch.Generator().manual_seed(0))
    assert a.abs().max() <= bound
    assert a.std().item() == pytest.approx(reference.std().item(), rel=0.02)
    assert abs(a.mean().item()) < bound / 50
    assert not adapter["x.q_proj"].b.any()


@given(st.integers(0, 2**63 - 1))
def test_fresh_and_perturbed_adapters_depend_on_the_generator_only(seed: int) -> None:
    shapes = {"x.q_proj": (5, 4), "y.q_proj": (5, 4)}

    def draw() -> dict[str, Factors]:
        g = torch.Generator().manual_seed(seed)
        return perturb(fresh(shapes, RANK, g), 0.1, g)

    one, other = draw(), draw()
    assert same(one, other)
    assert not torch.equal(one["x.q_proj"].a, one["y.q_proj"].a)


def test_noise_is_the_given_share_of_each_tensors_own_spread() -> None:
    g = torch.Generator().manual_seed(0)
    start = {"x": Factors(torch.randn(500, 40, generator=g), 1e-3 * torch.randn(40, 500, generator=g))}
    changed = perturb(start, 0.05, g)
    for old, new in ((start["x"].a, changed["x"].a), (start["x"].b, changed["x"].b)):
        assert ((new - old).std() / old.std()).item() == pytest.approx(0.05, rel=0.05)


def test_no_perturbation_changes_no_bit() -> None:
    g = torch.Generator().manual_seed(0)
    start = fresh({"x": (6, 4)}, RANK, g)
    assert same(perturb(start, 0.0, g), start)


def test_members_that_start_from_nothing_differ_in_function_and_stay_near_the_base() -> None:
    g = torch.Generator().manual_seed(0)
    start = fresh({"x": (500, 400)}, RANK, g)
    members = [perturb(start, 0.05, g) for _ in range(3)]
    for one, other in combinations(members, 2):
        # Their updates are noise of their own, so they are at right angles in a space of so many dimensions.
        assert relative_distance(one, other) == pytest.approx(2**0.5, rel=0.05)
    for member in members:
        assert (member["x"].b.std() / start["x"].a.std()).item() == pytest.approx(0.05, rel=0.1)
