"""The joint pass agrees with transformers' model in float64, in which each sample is a sequence of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from redqueen.config import ModelConfig
from redqueen.engine.learning.gradients import ForwardOptions, TokenStats, accumulate, read_stats
from redqueen.engine.learning.packing import WeightedSample, micro_batches
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import Base
from redqueen.engine.model.decoder import FAMILIES
from redqueen.errors import PromptError
from redqueen.records import Sample
from tests.reference import doubled, gradient, merged, noisy

MEMBERS = "abc"
PLAIN = ForwardOptions(temperature=1.0, checkpointing=False)


def bank_of(
    base: Base, targets: tuple[str, ...] = ModelConfig().targets, master: torch.dtype = torch.float32
) -> AdapterBank:
    bank = AdapterBank(base.decoder.sites, 3, 4, 8.0, targets, master=master)
    for i, name in enumerate(MEMBERS):
        bank.add(name, noisy(bank, i, rank=2 if name == "c" else 4))
    return bank


def samples(seed: int = 0) -> list[WeightedSample]:
    """Returns samples of uneven lengths: several of one prompt, single tokens, a prompt that two members share."""
    g = torch.Generator().manual_seed(seed)

    def ids(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(1, 250, (n,), generator=g).tolist())

    prompts = [ids(6), ids(3), ids(1)]
    plan = [("a", 0, (4, 1, 7, 3)), ("b", 0, (5,)), ("b", 1, (1, 1)), ("c", 2, (2, 6)), ("c", 1, (3,)), ("a", 1, (2,))]
    items: list[WeightedSample] = []
    for member, prompt, lengths in plan:
        for length in lengths:
            weight = float(torch.randn((), generator=g))
            sample = Sample(
                member=member,
                prompt_ids=prompts[prompt],
                token_ids=ids(length),
                logprobs=(-2.0,) * length,
                advantage=1.0,
            )
            items.append(WeightedSample(sample, MEMBERS.index(member), weight))
    return items


def joint(
    base: Base, bank: AdapterBank, items: Sequence[WeightedSample], budget: int = 4096, options: ForwardOptions = PLAIN
) -> tuple[Tensor, dict[int, TokenStats]]:
    """Returns all members' gradients [slots, P] and token statistics by slot."""
    gradients = bank.gradients()
    stats: dict[int, TokenStats] = {}
    for groups in micro_batches(items, budget):
        (batch,) = read_stats([accumulate(base.decoder, bank, gradients, groups, options)])
        for slot, tokens in batch.items():
            stats.setdefault(slot, TokenStats()).add(tokens)
    return gradients.flat, stats


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-4) -> None:
    """Asserts that gradients agree in norm, which clipping sees, and in the worst element."""
    assert (actual.double() - expected.double()).norm() <= tolerance * expected.double().norm()
    torch.testing.assert_close(actual.double(), expected.double(), atol=tolerance * float(expected.abs().max()), rtol=0)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_loss_and_gradients_are_those_of_the_plain_way(
    bases: Callable[[str], Base], family: str, temperature: float
) -> None:
    base = bases(family)
    bank, items = bank_of(base), samples()
    actual, stats = joint(base, bank, items, options=ForwardOptions(temperature, False))
    for slot, member in enumerate(MEMBERS):
        weighted = [(i.sample, i.weight) for i in items if i.slot == slot]
        loss, expected = gradient(base, bank, member, weighted, temperature)
        close(actual[slot], expected)
        assert stats[slot].loss == pytest.approx(loss, rel=1e-4, abs=1e-4)
        assert stats[slot].tokens == sum(len(sample.token_ids) for sample, _ in weighted)


def test_in_float64_nothing_but_the_norms_precision_is_left(bases: Callable[[str], Base]) -> None:
    base = doubled(bases("qwen3"))
    bank, items = bank_of(base, master=torch.float64), samples()
    actual, _ = joint(base, bank, items)
    _, expected = gradient(base, bank, "a", [(i.sample, i.weight) for i in items if i.slot == 0])
    close(actual[0], expected, 1e-6)


@pytest.mark.parametrize("targets", [("q_proj", "v_proj"), ("down_proj",), ("k_proj", "up_proj")])
def test_layers_left_out_of_the_targets_do_not_change_the_others(
    bases: Callable[[str], Base], targets: tuple[str, ...]
) -> None:
    base = bases("llama")
    bank, items = bank_of(base, targets), samples()
    actual, _ = joint(base, bank, items)
    _, expected = gradient(base, bank, "b", [(i.sample, i.weight) for i in items if i.slot == 1])
    close(actual[1], expected)


@settings(max_examples=25)
@given(budget=st.integers(1, 64), checkpointing=st.booleans(), seed=st.integers(0, 9))
def test_any_budget_gives_the_total_gradient_of_one_pass(
    bases: Callable[[str], Base], budget: int, checkpointing: bool, seed: int
) -> None:
    base = bases("llama")
    bank, items = bank_of(base), samples(seed)
    whole, one = joint(base, bank, items)
    split, many = joint(base, bank, items, budget, ForwardOptions(1.0, checkpointing))
    for slot in range(3):
        close(split[slot], whole[slot], 1e-5)
        assert many[slot].tokens == one[slot].tokens
        assert many[slot].loss == pytest.approx(one[slot].loss, rel=1e-4, abs=1e-5)


@pytest.mark.usefixtures("both_ways")
def test_checkpointing_changes_no_bit(bases: Callable[[str], Base]) -> None:
    base = bases("qwen2")
    bank, items = bank_of(base), samples()
    assert torch.equal(*(joint(base, bank, items, options=ForwardOptions(1.0, c))[0] for c in (False, True)))


def test_a_members_gradient_does_not_depend_on_who_else_is_in_the_batch(bases: Callable[[str], Base]) -> None:
    base = bases("mistral")
    bank, items = bank_of(base), samples()
    together, _ = joint(base, bank, items)
    for slot in range(3):
        alone, _ = joint(base, bank, [i for i in items if i.slot == slot])
        close(alone[slot], together[slot], 1e-5)
        assert not alone[[s for s in range(3) if s != slot]].any()


def test_spare_components_of_a_lower_rank_get_no_gradient_at_all(bases: Callable[[str], Base]) -> None:
    base = bases("llama")
    bank, items = bank_of(base), samples()
    actual, _ = joint(base, bank, items)
    for place in bank.places.values():
        a, b = place.views(actual[2])
        assert a[:, :2].any()
        assert b[:2].any()
        assert not a[:, 2:].any()
        assert not b[2:].any()


def test_the_gap_is_that_of_the_merged_model(bases: Callable[[str], Base]) -> None:
    base = bases("llama")
    bank, items = bank_of(base), [i for i in samples() if i.slot == 0]
    _, stats = joint(base, bank, items, options=ForwardOptions(0.7, False))
    model = merged(base, bank, "a")
    gap = 0.0
    for i in items:
        ids = i.sample.prompt_ids + i.sample.token_ids
        with torch.no_grad():
            logp = (model(torch.tensor([ids])).logits[0, len(i.sample.prompt_ids) - 1 : -1] / 0.7).log_softmax(-1)
        chosen = logp.gather(1, torch.tensor(i.sample.token_ids)[:, None])[:, 0]
        gap += float((chosen - torch.tensor(i.sample.logprobs)).abs().sum())
    assert stats[0].ratio.gap == pytest.approx(gap, rel=1e-4)


def test_a_sample_beyond_the_sliding_window_is_refused(tiny_base: Base) -> None:
    bank = bank_of(tiny_base)
    item = WeightedSample(
        Sample(member="a", prompt_ids=(1, 2, 3, 4), token_ids=(5, 6, 7), logprobs=(-1.0,) * 3, advantage=1.0), 0, 1.0
    )
    groups = next(micro_batches([item], 64))
    accumulate(replace(tiny_base.decoder, window=6), bank, bank.gradients(), groups, PLAIN)
    with pytest.raises(PromptError, match="window of 5"):
        accumulate(replace(tiny_base.decoder, window=5), bank, bank.gradients(), groups, PLAIN)
