"""The bank: members' slots in one frozen base."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from redqueen.adapters.bank import FAMILIES, AdapterBank, AdapterError, fresh, perturb
from redqueen.adapters.factors import Factors
from redqueen.policy.base import Base, fingerprint

TARGETS = ("q_proj", "v_proj", "down_proj")
RANK, ALPHA = 2, 6.0


def noisy(bank: AdapterBank, seed: int) -> dict[str, Factors]:
    g = torch.Generator().manual_seed(seed)
    return {
        name: Factors(
            torch.randn(fan_in, bank.rank, generator=g) / fan_in**0.5,
            0.2 * torch.randn(bank.rank, fan_out, generator=g),
        )
        for name, (fan_in, fan_out) in bank.shapes().items()
    }


def same(one: dict[str, Factors], other: dict[str, Factors]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[s].a, other[s].a) and torch.equal(one[s].b, other[s].b) for s in one
    )


def logits(base: Base, bank: AdapterBank, members: list[str], ids: Tensor) -> Tensor:
    with torch.no_grad(), bank.routing.rows([bank.slots[m] for m in members]):
        return base.model(ids).logits


@pytest.fixture
def base(new_base: Callable[..., Base]) -> Base:
    return new_base("llama")


@pytest.fixture
def bank(base: Base) -> AdapterBank:
    return AdapterBank(base.model, 3, RANK, ALPHA, TARGETS)


IDS = torch.tensor([[5, 6, 7, 8], [9, 8, 7, 6]])


@pytest.mark.parametrize("family", FAMILIES)
def test_every_targeted_layer_of_every_family_is_a_site(new_base: Callable[..., Base], family: str) -> None:
    base = new_base(family)
    linear = {name for name, module in base.model.named_modules() if isinstance(module, nn.Linear)}
    bank = AdapterBank(base.model, 1, RANK, ALPHA, TARGETS)
    assert set(bank.sites) == {name for name in linear if name.endswith(TARGETS)}
    assert len(bank.sites) == 2 * len(TARGETS)
    assert bank.shapes()["model.layers.1.mlp.down_proj"] == (64, 32)


@pytest.mark.parametrize("family", FAMILIES)
def test_members_in_one_batch_get_what_each_gets_alone(new_base: Callable[..., Base], family: str) -> None:
    base = new_base(family)
    bank = AdapterBank(base.model, 3, RANK, ALPHA, TARGETS)
    for seed, name in enumerate("abc"):
        bank.add(name, noisy(bank, seed))
    ids = torch.randint(0, 200, (5, 9), generator=torch.Generator().manual_seed(0))
    together = logits(base, bank, ["a", "a", "b", "c", "c"], ids)
    for rows, name in (((0, 1), "a"), ((2,), "b"), ((3, 4), "c")):
        alone = logits(base, bank, [name] * len(rows), ids[list(rows)])
        torch.testing.assert_close(together[list(rows)], alone, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(together[0], logits(base, bank, ["b"], ids[:1])[0], atol=1e-2)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_member_is_the_base_with_its_update_merged(new_base: Callable[..., Base], family: str) -> None:
    # in float64, where merging rounds nothing that matters
    base, merged = new_base(family), new_base(family)
    base.model.double(), merged.model.double()
    bank = AdapterBank(base.model, 1, RANK, ALPHA, TARGETS)
    bank.add("a", noisy(bank, 0))
    with torch.no_grad():
        for name, factors in bank.read("a").items():
            merged.model.get_submodule(name).weight += ALPHA / RANK * (factors.a.double() @ factors.b.double()).T
        expected = merged.model(IDS).logits
        assert (merged.model(IDS).logits - base.model(IDS).logits).abs().max() > 0.1
    torch.testing.assert_close(logits(base, bank, ["a", "a"], IDS), expected, atol=1e-10, rtol=1e-10)


def test_without_routing_the_model_is_the_base(base: Base, tiny_base: Base) -> None:
    with torch.no_grad():
        expected = tiny_base.model(IDS).logits
        bank = AdapterBank(base.model, 1, RANK, ALPHA, TARGETS)
        bank.add("a", noisy(bank, 0))
        assert torch.equal(base.model(IDS).logits, expected)


def test_a_fresh_adapter_is_the_base_to_the_bit(base: Base, bank: AdapterBank, tiny_base: Base) -> None:
    bank.add("a", fresh(bank.shapes(), RANK, torch.Generator().manual_seed(0)))
    assert torch.equal(logits(base, bank, ["a", "a"], IDS), tiny_base.model(IDS).logits)


def test_only_adapters_take_gradients_and_the_bases_fingerprint_stays(base: Base) -> None:
    before = fingerprint(base.model)
    bank = AdapterBank(base.model, 2, RANK, ALPHA, TARGETS)
    bank.add("a", noisy(bank, 0))
    assert fingerprint(base.model) == before
    with bank.routing.rows([bank.slots["a"]] * 2):
        base.model(IDS).logits.sum().backward()
    trained = {name for name, p in base.model.named_parameters() if p.grad is not None}
    assert trained == {f"{site}.{factor}" for site in bank.sites for factor in "ab"}
    assert fingerprint(base.model) == before


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


def test_members_do_not_share_weights(bank: AdapterBank) -> None:
    bank.add("a", noisy(bank, 0))
    bank.add("b", noisy(bank, 1))
    bank.write("a", noisy(bank, 2))
    assert same(bank.read("a"), noisy(bank, 2))
    assert same(bank.read("b"), noisy(bank, 1))


def test_masters_are_views_and_a_refresh_brings_them_into_play(base: Base, bank: AdapterBank) -> None:
    bank.add("a", noisy(bank, 0))
    bank.add("b", noisy(bank, 1))
    before = logits(base, bank, ["a", "b"], IDS)
    for master in bank.masters("a"):
        master.mul_(0.5)
    assert torch.equal(logits(base, bank, ["a", "b"], IDS), before)
    bank.refresh("a")
    after = logits(base, bank, ["a", "b"], IDS)
    assert not torch.equal(after[0], before[0])
    assert torch.equal(after[1], before[1])
    assert torch.equal(bank.read("a")[next(iter(bank.sites))].a, 0.5 * noisy(bank, 0)[next(iter(bank.sites))].a)


def test_gradients_are_in_the_order_of_the_masters_and_zero_without_a_pass(base: Base, bank: AdapterBank) -> None:
    bank.add("a", noisy(bank, 0))
    bank.add("b", noisy(bank, 1))
    assert all(not g.any() for g in bank.gradients("a"))
    with bank.routing.rows([bank.slots["b"]] * 2):
        base.model(IDS).logits.pow(2).sum().backward()
    assert [g.shape for g in bank.gradients("b")] == [m.shape for m in bank.masters("b")]
    assert all(g.any() for g in bank.gradients("b"))
    assert all(not g.any() for g in bank.gradients("a"))
    bank.zero_grad()
    assert all(not g.any() for g in bank.gradients("b"))


def test_a_slots_version_grows_with_every_write_and_is_never_reused(bank: AdapterBank) -> None:
    seen: set[tuple[int, int]] = set()
    for round_number in range(4):
        slot = bank.add(f"m{round_number}", noisy(bank, round_number))
        seen.add((slot, bank.versions[slot]))
        bank.write(f"m{round_number}", noisy(bank, 9))
        seen.add((slot, bank.versions[slot]))
        bank.retire(f"m{round_number}")
    assert len(seen) == 8


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
    good, first = noisy(bank, 1), next(iter(bank.sites))
    wide = {n: Factors(torch.cat([f.a, f.a], 1), torch.cat([f.b, f.b], 0)) for n, f in good.items()}
    return {
        "site missing": {n: f for n, f in good.items() if n != first},
        "site too many": {**good, "model.layers.9.self_attn.q_proj": good[first]},
        "rank": wide,
        "shape": {**good, first: Factors(good[first].a[1:], good[first].b)},
        "last only": {**good, list(good)[-1]: wide[list(good)[-1]]},
        "empty": {},
    }


@pytest.mark.parametrize("which", ["site missing", "site too many", "rank", "shape", "last only", "empty"])
def test_a_misfitting_adapter_is_refused_and_the_member_stays_as_it_was(bank: AdapterBank, which: str) -> None:
    bank.add("a", noisy(bank, 0))
    versions = list(bank.versions)
    with pytest.raises(AdapterError) as caught:
        bank.write("a", misfits(bank)[which])
    assert "\n" not in str(caught.value)
    assert same(bank.read("a"), noisy(bank, 0))
    assert bank.versions == versions


# `add` takes the slot and the name before it looks at the weights.
@pytest.mark.parametrize("which", ["site missing", "rank"])
def test_a_refused_newcomer_leaves_neither_name_nor_slot_behind(bank: AdapterBank, which: str) -> None:
    slots, free = dict(bank.slots), list(bank.free)
    with pytest.raises(AdapterError):
        bank.add("a", misfits(bank)[which])
    assert (bank.slots, bank.free) == (slots, free)


def test_rows_are_ordered_by_slot_and_stay_in_order_within_a_member(bank: AdapterBank) -> None:
    for name in "abc":
        bank.add(name, noisy(bank, 0))
    rows = list("bacbca")
    order = bank.order(rows)
    assert order == [1, 5, 0, 3, 2, 4]
    with bank.routing.rows([bank.slots[rows[i]] for i in order]):
        assert [slot for slot, _, _ in bank.routing.groups] == [0, 1, 2]


def test_an_unsupported_family_is_refused_with_the_supported_ones() -> None:
    class Config:
        model_type = "gpt2"

    model = nn.Sequential(nn.Linear(2, 2))
    model.config = Config()  # type: ignore[assignment]
    with pytest.raises(AdapterError, match="'gpt2' is not supported: choose one of llama, mistral, qwen2, qwen3"):
        AdapterBank(model, 1, 1, 1.0, ["0"])
    with pytest.raises(AdapterError, match="'unknown'"):
        AdapterBank(nn.Linear(2, 2), 1, 1, 1.0, ["q_proj"])


def test_a_target_that_the_model_lacks_is_refused_by_name(base: Base) -> None:
    with pytest.raises(AdapterError, match=r"no module named c_attn, w1 \(model.targets\)"):
        AdapterBank(base.model, 1, RANK, ALPHA, ("q_proj", "w1", "c_attn"))


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


def test_no_perturbation_and_a_zero_b_stay_exact() -> None:
    g = torch.Generator().manual_seed(0)
    start = fresh({"x": (6, 4)}, RANK, g)
    assert same(perturb(start, 0.0, g), start)
    assert not perturb(start, 0.5, g)["x"].b.any()
