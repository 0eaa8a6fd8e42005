"""Decoding from the cache gives what a pass over the whole sequence gives."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import pytest
import torch
from torch import Tensor

from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.attention import SharedPrefix
from redqueen.policy.model.base import Base
from redqueen.policy.model.decoder import FAMILIES, Decoder
from redqueen.policy.sampling.decode_step import NumbaDecodeStep, TorchDecodeStep
from redqueen.policy.sampling.kv_cache import KVCache, Prefill, PrefillEntry
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
        return one(torch.tensor(tokens), int(cache.length_R[: len(tokens)].max()))

    return run


@pytest.mark.parametrize("family", FAMILIES)
def test_token_by_token_gives_what_the_whole_sequence_gives(
    bases: Callable[[str], Base], step: Step, family: str
) -> None:
    decoder = bases(family).decoder
    cache = KVCache(decoder, 4)
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
    cache = KVCache(decoder, 3)
    with torch.inference_mode():
        prefill(decoder, cache, [(LONG, [0]), ((5, 6), [1]), ((7, 8, 9), [2])])
        cache.move([2], [0])
        actual = decoder.head(step(decoder, cache, [10, 11]))
        torch.testing.assert_close(actual[0], logits(decoder, [(7, 8, 9, 10)])[0][-1], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(actual[1], logits(decoder, [(5, 6, 11)])[0][-1], atol=1e-4, rtol=1e-4)
        # The shorter text must not read what the longer one left behind its end.
        prefill(decoder, cache, [((3,), [0])])
        actual = decoder.head(step(decoder, cache, [12, 13]))
        torch.testing.assert_close(actual[0], logits(decoder, [(3, 12)])[0][-1], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(actual[1], logits(decoder, [(5, 6, 11, 13)])[0][-1], atol=1e-4, rtol=1e-4)


def test_the_cache_grows_without_losing_what_it_holds(bases: Callable[[str], Base], step: Step) -> None:
    decoder = bases("llama").decoder
    cache = KVCache(decoder, 2)
    text = (5, 6, 7)
    with torch.inference_mode():
        prefill(decoder, cache, [(text, [0, 1])])
        sizes = {cache.room}
        for token in LONG:
            actual = decoder.head(step(decoder, cache, [token, 99]))
            text = (*text, token)
            sizes.add(cache.room)
        torch.testing.assert_close(actual[0], logits(decoder, [text])[0][-1], atol=1e-4, rtol=1e-4)
    assert len(sizes) > 2
    assert cache.room >= len(text)


def test_rows_beyond_those_that_step_stay_as_they_are(bases: Callable[[str], Base], step: Step) -> None:
    decoder = bases("llama").decoder
    cache = KVCache(decoder, 3)
    with torch.inference_mode():
        prefill(decoder, cache, [((5, 6), [0]), ((7, 8, 9), [2])])
        keys = cache.keys[:, 2].clone()
        values = cache.values[:, 2].clone()
        step(decoder, cache, [10])
        assert torch.equal(cache.keys[:, 2], keys)
        assert torch.equal(cache.values[:, 2], values)
    assert cache.length_R.tolist()[::2] == [3, 3]
