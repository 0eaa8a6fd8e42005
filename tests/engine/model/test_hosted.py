"""Hosted families: PEFT on the same model is the oracle, and our own decoder where it computes the family too."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import accumulate as running
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GPTBigCodeConfig, GPTBigCodeForCausalLM

from redqueen.config import AUTO_TARGETS
from redqueen.engine.learning.gradients import ForwardOptions, accumulate
from redqueen.engine.learning.packing import WeightedSample, micro_batches
from redqueen.engine.lora.adapter_bank import AdapterBank, Gradients
from redqueen.engine.model.attention import SharedPrefix
from redqueen.engine.model.decoder import decoder_of
from redqueen.engine.model.forward import Forward
from redqueen.engine.model.hosted import HostedDecoder, adaptable
from redqueen.errors import ModelError
from redqueen.records import Sample
from tests.hosted import FAMILIES, WINDOW, peft_gradient, peft_of, tiny_model
from tests.reference import LOGIT_ROUNDING, noisy

# Longer than the sliding window of those that have one.
PROMPT = (5, 9, 31, 2, 60, 17, 8, 44, 3, 21)
TEXTS = ((7, 12, 50, 33), (40, 6), (13,), (22, 22, 9, 54, 61, 30))
PLAIN = ForwardOptions(temperature=0.7, checkpointing=False)


def hosted(family: str) -> tuple[HostedDecoder, AdapterBank]:
    """Returns a hosted model and a bank with members a and b, b of a smaller rank."""
    decoder = HostedDecoder(tiny_model(family))
    return decoder, bank_of(decoder)


def bank_of(decoder: Forward, targets: Sequence[str] = AUTO_TARGETS) -> AdapterBank:
    bank = AdapterBank(decoder.sites, 2, 4, 8.0, targets)
    bank.add("a", noisy(bank, 1))
    bank.add("b", noisy(bank, 2, rank=2))
    return bank


def samples(bank: AdapterBank, member: str, texts: Sequence[Sequence[int]] = TEXTS) -> list[WeightedSample]:
    slot = bank.slots[member]
    return [
        WeightedSample(
            Sample(member=member, prompt_ids=PROMPT, token_ids=tuple(text), logprobs=(), advantage=1.0),
            slot,
            0.3 + 0.2 * number,
        )
        for number, text in enumerate(texts)
    ]


def gradients(
    decoder: Forward, bank: AdapterBank, items: Sequence[WeightedSample], options: ForwardOptions = PLAIN
) -> Gradients:
    found = bank.gradients()
    for groups in micro_batches(items, 4096):
        accumulate(decoder, bank, found, groups, options)
    return found


def logits(decoder: Forward, bank: AdapterBank, members: Sequence[str], sequences: Sequence[Sequence[int]]) -> Tensor:
    """Returns the logits of sequences, one after the other; the members' slots ascend."""
    lengths = [len(sequence) for sequence in sequences]
    starts = [0, *running(lengths)]
    ids = torch.tensor([token for sequence in sequences for token in sequence])
    position = torch.cat([torch.arange(length) for length in lengths])
    prefixes = [SharedPrefix(start, length) for start, length in zip(starts, lengths, strict=False)]
    slots = [bank.slots[member] for member in members]
    with torch.no_grad():
        return decoder.logits(decoder.states(ids, position, prefixes, lambda rows: bank.rows(slots, rows)))


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_and_gradients_are_those_of_peft(family: str) -> None:
    decoder, bank = hosted(family)
    oracle = peft_of(tiny_model(family), bank, "a")
    for text in TEXTS:
        ids = PROMPT + text
        expected = oracle(input_ids=torch.tensor([ids])).logits[0].detach()
        found = logits(decoder, bank, "a", [ids])
        assert (found - expected).abs().max() <= LOGIT_ROUNDING * max(1.0, float(expected.abs().max()))

    items = samples(bank, "a")
    loss = torch.zeros(())
    for item in items:
        ids = torch.tensor([PROMPT + item.sample.token_ids])
        logp = (oracle(input_ids=ids).logits[0, len(PROMPT) - 1 : -1] / PLAIN.temperature).log_softmax(-1)
        loss = loss - item.weight * logp.gather(1, torch.tensor(item.sample.token_ids)[:, None]).sum()
    loss.backward()
    expected = peft_gradient(oracle, bank)
    found = gradients(decoder, bank, items).flat[bank.slots["a"]]
    assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()


@pytest.mark.parametrize("family", FAMILIES)
def test_two_members_in_one_batch_equal_each_alone(family: str) -> None:
    decoder, bank = hosted(family)
    first, second = PROMPT + TEXTS[0], PROMPT[3:] + TEXTS[3]
    together = logits(decoder, bank, "ab", [first, second])
    alone = torch.cat([logits(decoder, bank, "a", [first]), logits(decoder, bank, "b", [second])])
    assert (together - alone).abs().max() <= LOGIT_ROUNDING * max(1.0, float(alone.abs().max()))

    of_both = gradients(decoder, bank, [*samples(bank, "a"), *samples(bank, "b", TEXTS[:2])]).flat
    of_each = (
        gradients(decoder, bank, samples(bank, "a")).flat + gradients(decoder, bank, samples(bank, "b", TEXTS[:2])).flat
    )
    assert (of_both - of_each).abs().max() <= 1e-4 * of_each.abs().max()


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_recomputed_activations_give_the_same_gradients(family: str) -> None:
    decoder, bank = hosted(family)
    items = [*samples(bank, "a"), *samples(bank, "b")]
    kept = gradients(decoder, bank, items).flat
    recomputed = gradients(decoder, bank, items, ForwardOptions(temperature=0.7, checkpointing=True)).flat
    assert (kept - recomputed).abs().max() <= 1e-5 * kept.abs().max()


@pytest.mark.parametrize("family", ["gemma2", "gemma3", "phi3_window"])
def test_a_window_shorter_than_the_text_matters(family: str) -> None:
    # The oracles above would agree as well if neither of them had a window.
    wide = HostedDecoder(tiny_model(family, sliding_window=200))
    narrow, bank = hosted(family)
    ids = PROMPT + TEXTS[0]
    differing = (logits(wide, bank, "a", [ids]) - logits(narrow, bank, "a", [ids])).abs().amax(-1)
    assert differing[:WINDOW].max() <= LOGIT_ROUNDING * 10
    assert differing[WINDOW:].max() > 0.01


def test_a_head_that_reads_other_outputs_of_its_text_model_is_hosted() -> None:
    config = GPTBigCodeConfig(vocab_size=64, n_positions=64, n_embd=16, n_layer=2, n_head=2)
    # `check` compares the parts with the whole.
    assert HostedDecoder(GPTBigCodeForCausalLM(config).eval().requires_grad_(False)).window == 64


def test_a_family_whose_modules_fail_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("olmo2")

    def refuse(*given: Any, **named: Any) -> Any:
        raise TypeError("unexpected keyword argument 'use_cache'")

    monkeypatch.setattr(model.model, "forward", refuse)
    with pytest.raises(ModelError, match="model family 'olmo2' is not supported: TypeError: unexpected keyword"):
        HostedDecoder(model)


def test_longrope_allows_texts_that_do_not_change_the_frequencies_of_their_neighbours() -> None:
    assert HostedDecoder(tiny_model("phi3_long")).window == 64
    assert HostedDecoder(tiny_model("phi3")).window == 256


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_hosted_equals_our_own_decoder(family: str) -> None:
    model = tiny_model(family)
    own = decoder_of(copy.deepcopy(model))
    other = HostedDecoder(model)
    bank, own_bank = bank_of(other), bank_of(own)
    for member in "ab":
        own_bank.write(member, bank.read(member))
    ids = [PROMPT + TEXTS[0], PROMPT + TEXTS[1]]
    assert (logits(other, bank, "ab", ids) - logits(own, own_bank, "ab", ids)).abs().max() <= LOGIT_ROUNDING * 10
    by_member = [gradients(d, b, samples(b, "a")) for d, b in ((other, bank), (own, own_bank))]
    found, expected = (b.unpack("a", g.flat[0]) for b, g in zip((bank, own_bank), by_member, strict=True))
    for name, factors in expected.items():
        torch.testing.assert_close(found[name].a, factors.a, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(found[name].b, factors.b, rtol=1e-3, atol=1e-4)


def test_what_adapters_change_by_default() -> None:
    def names(family: str) -> set[str]:
        return {name.rpartition(".")[2] for name, _ in adaptable(tiny_model(family))}

    attention = {"q_proj", "k_proj", "v_proj", "o_proj"}
    assert names("qwen3_moe") == attention
    assert names("phi3") == {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
    assert names("olmo2") == attention | {"gate_proj", "up_proj", "down_proj"}


def test_a_layer_that_does_not_get_every_token_is_refused() -> None:
    model = tiny_model("olmo2")
    block = model.model.layers[0].mlp
    forward = block.forward
    block.forward = lambda hidden: torch.cat([forward(hidden[:, :1]), hidden[:, 1:]], 1)
    with pytest.raises(ModelError, match="does not compute every token"):
        HostedDecoder(model)


def test_a_text_that_is_kept_in_more_than_keys_is_refused() -> None:
    model = tiny_model("olmo2")
    block = model.model.layers[0].mlp
    forward = block.forward
    # Each token's output depends on the sum over the tokens before it, which no cache holds.
    block.forward = lambda hidden: forward(hidden.cumsum(1))
    with pytest.raises(ModelError, match="more of a text than keys and values"):
        HostedDecoder(model)


def test_a_batch_of_other_rows_is_refused() -> None:
    decoder, bank = hosted("olmo2")
    with pytest.raises(ValueError, match="a batch of 10 rows"):
        decoder.run(bank.rows([0], [9]), input_ids=torch.tensor([PROMPT]), use_cache=False)
