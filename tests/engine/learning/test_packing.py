"""Micro-batches hold every sample once, prompts once if the budget allows, and rows that predict the right tokens."""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from redqueen.engine.learning.packing import PromptGroup, WeightedSample, build_micro_batch, micro_batches
from redqueen.records import Sample

PROMPTS = ((7,), (1, 2, 3), (1, 2, 3, 4, 5, 6), (9, 9))


def item(number: int, slot: int, prompt: int, tokens: int) -> WeightedSample:
    """Returns a sample whose tokens occur in no other."""
    ids = tuple(100 * (number + 1) + i for i in range(tokens))
    return WeightedSample(
        Sample(
            member="m", prompt_ids=PROMPTS[prompt], token_ids=ids, logprobs=tuple(float(-i) for i in ids), advantage=1.0
        ),
        slot,
        number + 0.5,
    )


ITEMS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, len(PROMPTS) - 1), st.integers(1, 9)), min_size=1, max_size=12
).map(lambda rows: [item(i, *row) for i, row in enumerate(rows)])


@given(ITEMS, st.integers(1, 60))
def test_every_sample_is_in_one_micro_batch_that_is_sorted_and_within_the_budget(
    items: list[WeightedSample], budget: int
) -> None:
    batches = list(micro_batches(items, budget))
    assert Counter(i.weight for groups in batches for group in groups for i in group.samples) == Counter(
        i.weight for i in items
    )
    for groups in batches:
        assert all(one.slot <= other.slot for one, other in pairwise(groups))
        alone = len(groups) == 1 and len(groups[0].samples) == 1
        assert alone or sum(group.tokens for group in groups) <= budget
        for group in groups:
            assert {(i.slot, i.sample.prompt_ids) for i in group.samples} == {(group.slot, group.prompt_ids)}
            assert group.tokens == len(group.prompt_ids) + sum(len(i.sample.token_ids) - 1 for i in group.samples)


@given(ITEMS)
def test_with_room_enough_each_prompt_is_computed_once_for_each_member(items: list[WeightedSample]) -> None:
    ((*groups,),) = micro_batches(items, 10_000)
    assert sorted((group.slot, group.prompt_ids) for group in groups) == sorted(
        {(i.slot, i.sample.prompt_ids) for i in items}
    )
    rows = sum(group.tokens for group in groups)
    plain = sum(len(i.sample.prompt_ids) + len(i.sample.token_ids) - 1 for i in items)
    repeated = Counter((i.slot, i.sample.prompt_ids) for i in items)
    assert plain - rows == sum((count - 1) * len(prompt) for (_, prompt), count in repeated.items())


@given(ITEMS, st.integers(1, 60))
def test_each_row_predicts_the_next_token_of_its_own_sample(items: list[WeightedSample], budget: int) -> None:
    for groups in micro_batches(items, budget):
        batch = build_micro_batch(groups, torch.device("cpu"))
        # A group's rows are the prompt and then each sample's suffix. Each scored row is checked in that order.
        items_in_batch = list(chain.from_iterable(group.samples for group in groups))
        at = 0
        for group, prefix in zip(groups, batch.prefixes, strict=True):
            assert (prefix.prompt, prefix.suffix_lengths) == (len(group.prompt_ids), group.suffix_lengths)
            suffix_start = prefix.start + prefix.prompt
            for weighted in group.samples:
                ids = weighted.sample.token_ids
                for j, token in enumerate(ids):
                    row = prefix.start + prefix.prompt - 1 if j == 0 else suffix_start + j - 1
                    assert batch.source_S[at] == row
                    assert batch.target_S[at] == token
                    assert batch.ids_N[row] == (group.prompt_ids[-1] if j == 0 else ids[j - 1])
                    assert batch.position_N[row] == len(group.prompt_ids) + j - 1
                    assert batch.weight_S[at] == weighted.weight
                    assert batch.logprob_S[at] == weighted.sample.logprobs[j]
                    at += 1
                suffix_start += len(ids) - 1
            assert tuple(batch.ids_N[prefix.start : prefix.start + prefix.prompt].tolist()) == group.prompt_ids
            assert batch.position_N[prefix.start : prefix.start + prefix.prompt].tolist() == list(range(prefix.prompt))
            assert suffix_start == prefix.end
        assert at == len(batch.target_S) == sum(len(i.sample.token_ids) for i in items_in_batch)
        assert batch.prefixes[-1].end == len(batch.ids_N) == sum(group.tokens for group in groups)


def test_a_completion_of_one_token_has_no_row() -> None:
    group = PromptGroup(0, PROMPTS[1], (item(0, 0, 1, 1), item(1, 0, 1, 1)))
    assert (group.suffix_lengths, group.tokens) == ((0, 0), 3)
    batch = build_micro_batch([group], torch.device("cpu"))
    assert batch.source_S.tolist() == [2, 2]
    assert batch.target_S.tolist() == [100, 200]


def test_nothing_makes_no_micro_batch() -> None:
    assert list(micro_batches([], 100)) == []
