"""Decoding from the cache gives what a pass over the whole sequence gives."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import pytest
import torch
from torch import Tensor

from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.attention import SharedPrefix
from redqueen.engine.model.base import Base
from redqueen.engine.model.decoder import FAMILIES, Decoder
from redqueen.engine.sampling.decode_step import TorchDecodeStep
from redqueen.engine.sampling.kv_cache import KVCache, Prefill, PrefillEntry
from redqueen.engine.sampling.numba_decode_step import NumbaDecodeStep
from tests.reference import logits

Step = Callable[[Decoder, KVCache, list[int]], Tensor]

LONG = tuple(range(40, 140))


def prefill(decoder: Decoder, cache: KVCache, prompts: list[tuple[tuple[int, ...], list[int]]]) -> list[Tensor]:
    """Computes prompts into rows of the cache. Returns each prompt's last hidden state."""
    entries: list[PrefillEntry] = []
    for ids, rows in prompts:
        entries.append(PrefillEntry(SharedPrefix(entries[-1].prefix.end if entries else 0, len(ids)), rows))
    ids = torch.tensor(list(chain.from_iterable(prompt for prompt, _ in prompts)))
    position = torch.cat([torch.arange(len(prompt)) for prompt, _ in prompts])
    hidden = decoder.hidden(ids, position, Prefill(cache, entries))
    return [hidden[entry.prefix.end - 1] for entry in entries]


@pytest.fixture(params=[TorchDecodeStep, NumbaDecodeStep])
def step(request: pytest.FixtureRequest) -> Step:
    """Returns a function that steps the first rows by one token without adapters, for both decode steps."""

    def run(decoder: Decoder, cache: KVCache, tokens: list[int]) -> Tensor:
        bank = AdapterBank(decoder.sites, 1, 2, 2.0, ("v_proj",))  # zeros
        one = request.param(decoder, bank, cache)
        one.assign_rows([0] * len(tokens))
        return one(torch.tensor(tokens))

    return run


@pytest.mark.parametrize("family", FAMILIES)
def test_token_by_token_gives_what_the_whole_sequence_gives(
    bases: Callable[[str], Base], step: Step, family: str
) -> None:
    decoder = bases(family).decoder
    cache = KVCache(decoder, 4, 20)
    # Rows 0 and 2 share a prompt and continue differently, row 1 is longer, row 3 has one token.
    texts = [(5, 6, 7), (9, 8, 7, 6, 5, 4, 3), (5, 6, 7), (77,)]
    with torch.inference_mode():
        last = prefill(decoder, cache, [(texts[0], [0, 2]), (texts[1], [1]), (texts[3], [3])])
        actual = [decoder.head(h) for h in (last[0], last[1], last[0], last[2])]
        for tokens in ([1, 2, 3, 4], [50, 60, 70, 80], [9, 9, 9, 9]):
            for text, row, expected in zip(texts, range(4), actual, strict=True):
                torch.testing.assert_close(expected, logits(decoder, [text])[0][-1], atol=1e-4, rtol=1e-4, msg=str(row))
            actual = list(decoder.head(step(decoder, cache, tokens)))
            texts = [(*text, token) for text, token in zip(texts, tokens, strict=True)]
    assert cache.length_R.tolist() == [6, 10, 6, 4]


def test_a_moved_row_goes_on_where_it_was_and_a_place_is_used_again(bases: Callable[[str], Base], step: Step) -> None:
    decoder = bases("llama").decoder
    cache = KVCache(decoder, 3, 120)
    with torch.inference_mode():
        prefill(decoder, cache, [(LONG, [0]), ((5, 6), [1]), ((7, 8, 9), [2])])
        cache.move([2], [0], 3)
        actual = decoder.head(step(decoder, cache, [10, 11]))
        torch.testing.assert_close(actual[0], logits(decoder, [(7, 8, 9, 10)])[0][-1], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(actual[1], logits(decoder, [(5, 6, 11)])[0][-1], atol=1e-4, rtol=1e-4)
        # The shorter text must not read what the longer one left behind its end.
        prefill(decoder, cache, [((3,), [0])])
        actual = decoder.head(step(decoder, cache, [12, 13]))
        torch.testing.assert_close(actual[0], logits(decoder, [(3, 12)])[0][-1], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(actual[1], logits(decoder, [(5, 6, 11, 13)])[0][-1], atol=1e-4, rtol=1e-4)


def test_a_row_at_its_limit_grows_no_more_and_leaves_the_others_alone(bases: Callable[[str], Base], step: Step) -> None:
    decoder = bases("llama").decoder
    cache = KVCache(decoder, 3, len(LONG) + 4)
    text = LONG
    with torch.inference_mode():
        prefill(decoder, cache, [((5, 6), [0]), (text, [1]), ((7,), [2])])
        cache.limit_R[0] = 3
        cache.length_R[2] = cache.limit_R[2] = 0
        for token in (10, 11, 12):
            actual = decoder.head(step(decoder, cache, [99, token, 98]))
            text = (*text, token)
        torch.testing.assert_close(actual[1], logits(decoder, [text])[0][-1], atol=1e-4, rtol=1e-4)
        # Row 2 is free: it sees its newest token only.
        torch.testing.assert_close(actual[2], logits(decoder, [(98,)])[0][-1], atol=1e-4, rtol=1e-4)
    assert cache.length_R.tolist() == [3, len(text), 0]


# Memory behind the end of a row may hold anything.
def test_what_lies_behind_a_row_does_not_matter(bases: Callable[[str], Base], step: Step) -> None:
    decoder = bases("llama").decoder
    cache = KVCache(decoder, 2, 120)
    cache.keys.fill_(float("nan"))
    cache.values.fill_(float("nan"))
    with torch.inference_mode():
        prefill(decoder, cache, [(LONG, [0]), ((5, 6), [1])])
        cache.move([1], [0], 2)
        actual = decoder.head(step(decoder, cache, [10, 11]))
        torch.testing.assert_close(actual[0], logits(decoder, [(5, 6, 10)])[0][-1], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(actual[1], logits(decoder, [(5, 6, 11)])[0][-1], atol=1e-4, rtol=1e-4)


def test_rows_beyond_those_that_step_stay_as_they_are(bases: Callable[[str], Base], step: Step) -> None:
    decoder = bases("llama").decoder
    cache = KVCache(decoder, 3, 120)
    with torch.inference_mode():
        prefill(decoder, cache, [((5, 6), [0]), ((7, 8, 9), [2])])
        keys = cache.keys[:, 2, :, :3].clone()
        values = cache.values[:, 2, :, :3].clone()
        step(decoder, cache, [10])
        assert torch.equal(cache.keys[:, 2, :, :3], keys)
        assert torch.equal(cache.values[:, 2, :, :3], values)
    assert cache.length_R.tolist()[::2] == [3, 3]
