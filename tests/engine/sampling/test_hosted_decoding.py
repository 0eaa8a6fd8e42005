"""Texts of hosted families: transformers' `generate` is the oracle, and each row by itself."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import pytest
import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from redqueen.config import AUTO_TARGETS
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.decoder import decoder_of
from redqueen.engine.model.forward import Forward
from redqueen.engine.model.hosted import HostedDecoder
from redqueen.engine.sampling.continuous_batch import BatchLimits, ContinuousBatch, Row, RowGroup, TextModel
from redqueen.records import SamplingParams
from tests.hosted import FAMILIES, peft_of, tiny_model
from tests.reference import noisy

PROMPTS = ((5, 9, 31, 2, 60, 17, 8, 44, 3, 21), (7, 12), (40, 6, 13, 22, 9))
END = 1
TOKENS = 12


def bank_of(decoder: Forward) -> AdapterBank:
    bank = AdapterBank(decoder.sites, 2, 4, 8.0, AUTO_TARGETS)
    bank.add("a", noisy(bank, 1))
    bank.add("b", noisy(bank, 2, rank=2))
    return bank


def group(slot: int, prompt: Sequence[int], first: int, *limits: int, temperature: float = 0.0) -> RowGroup:
    rows: list[Row] = []
    for number, limit in enumerate(limits, first):
        params = SamplingParams(max_tokens=limit, temperature=temperature)
        rows.append(Row(number, ("text", number), params, ()))
    return RowGroup(slot, tuple(prompt), rows)


def sample(
    decoder: Forward, bank: AdapterBank, groups: Sequence[RowGroup], rows: int = 64, prefill: int = 4096
) -> dict[int, Row]:
    done: dict[int, Row] = {}
    model = TextModel(decoder, None, frozenset({END}))
    batch = ContinuousBatch(model, bank, BatchLimits(rows, prefill), groups, lambda row: done.update({row.index: row}))
    batch.run()
    return done


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_texts_are_those_of_generate(family: str) -> None:
    decoder = HostedDecoder(tiny_model(family))
    bank = bank_of(decoder)
    # Room for two rows of five: rows are admitted as others end, prompts are longer and shorter than what is there.
    groups = [
        group(0, PROMPTS[0], 0, 3),
        group(1, PROMPTS[1], 1, TOKENS),
        group(0, PROMPTS[2], 2, TOKENS),
        group(1, PROMPTS[0], 3, TOKENS),
        group(0, PROMPTS[1], 4, TOKENS),
    ]
    texts = sample(decoder, bank, groups, rows=2)
    oracles = [peft_of(tiny_model(family), bank, member) for member in "ab"]
    for each in groups:
        row = texts[each.rows[0].index]
        ids = torch.tensor([each.prompt_ids])
        answer = oracles[each.slot].generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=each.max_tokens,
            do_sample=False,
            eos_token_id=END,
            output_scores=True,
            return_dict_in_generate=True,
        )
        assert row.token_ids == answer.sequences[0, ids.shape[1] :].tolist()
        expected = [s[0].log_softmax(-1)[token].item() for s, token in zip(answer.scores, row.token_ids, strict=True)]
        assert row.logprobs == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("family", ["gemma2", "gemma3", "phi3", "qwen3_moe"])
def test_a_text_does_not_depend_on_its_batch(family: str) -> None:
    decoder = HostedDecoder(tiny_model(family))
    bank = bank_of(decoder)

    def groups() -> list[RowGroup]:
        return [
            group(1, PROMPTS[2], 0, 9, 4, 12, temperature=1.0),
            group(0, PROMPTS[0], 3, 12, 2, temperature=0.8),
            group(1, PROMPTS[1], 5, 7, temperature=1.2),
        ]

    together = sample(decoder, bank, groups(), rows=4, prefill=8)
    for each in groups():
        alone = sample(decoder, bank, [each])
        for row in each.rows:
            assert together[row.index].token_ids == alone[row.index].token_ids


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_hosted_texts_are_those_of_our_own_decoder(family: str) -> None:
    own = decoder_of(tiny_model(family))
    hosted = HostedDecoder(tiny_model(family))
    texts: list[dict[int, list[int]]] = []
    for decoder in (own, hosted):
        bank = AdapterBank(decoder.sites, 2, 4, 8.0, ("o_proj", "down_proj"))
        for number, member in enumerate("ab"):
            bank.add(member, noisy(bank, number))
        found = sample(
            decoder, bank, [group(slot, PROMPTS[slot], 3 * slot, 12, 5, 9, temperature=1.0) for slot in (0, 1)]
        )
        texts.append({index: row.token_ids for index, row in found.items()})
    assert texts[0] == texts[1]


def test_further_rows_join_a_running_batch() -> None:
    decoder = HostedDecoder(tiny_model("gemma3"))
    bank = bank_of(decoder)
    done: dict[int, Row] = {}

    further: Future[list[RowGroup]] = Future()
    further.set_result([group(1, PROMPTS[2], 9, 8, 8)])

    def on_row(row: Row) -> Future[list[RowGroup]] | None:
        done[row.index] = row
        return None if row.index else further

    model = TextModel(decoder, None, frozenset())
    first = [group(0, PROMPTS[0], 0, 2), group(0, PROMPTS[0], 1, 90)]
    ContinuousBatch(model, bank, BatchLimits(8, 4096), first, on_row, 2).run()
    assert sorted(done) == [0, 1, 9, 10]
    # Ended rows leave places in front of all others, which are given back.
    alone = sample(decoder, bank, [group(1, PROMPTS[2], 9, 8, 8)])
    assert [done[index].token_ids for index in (9, 10)] == [alone[index].token_ids for index in (9, 10)]


def test_rows_behind_a_long_one_need_no_more_places_than_the_base_has_positions() -> None:
    # The masks of GPT-Neo are buffers of that size.
    config = GPTNeoConfig(
        vocab_size=64,
        max_position_embeddings=64,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        attention_types=[[["global", "local"], 1]],
        window_size=8,
    )
    decoder = HostedDecoder(GPTNeoForCausalLM(config).eval().requires_grad_(False))
    bank = bank_of(decoder)

    def groups() -> list[RowGroup]:
        # All start together. The long one soon ends, far to the right of what the others have.
        others = [group(0, tuple(range(3, 13)), number, 40) for number in range(1, 16)]
        return [group(0, tuple(range(3, 63)), 0, 4), *others]

    texts = sample(decoder, bank, groups())
    for each in groups()[:3]:
        number = each.rows[0].index
        assert texts[number].token_ids == sample(decoder, bank, [each])[number].token_ids
