"""Continuous batching: finished rows make room for others, prompts are shared, results are handed over at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from redqueen.config import SamplingConfig
from redqueen.engine.model.decoder import Decoder
from redqueen.engine.sampling import device_batch, recorded
from redqueen.engine.sampling.device_batch import DeviceBatch, DeviceBatches
from redqueen.engine.sampling.kv_cache import KVCache
from redqueen.engine.sampling.numba_decode_step import NumbaDecodeStep
from redqueen.records import Completion, Request
from tests.engine.conftest import Build, TinyPolicy
from tests.engine.requests import crowd, request, same
from tests.engine.sampling.operations import OperationRecorder
from tests.reference import noisy
from tests.tiny import FAMILIES


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 4, 7])
@pytest.mark.parametrize("family", FAMILIES)
def test_many_more_requests_than_rows_give_what_each_gives_alone(tiny_policy: Build, family: str, rows: int) -> None:
    policy = tiny_policy(family, sampling=SamplingConfig(batch_rows=rows))
    requests = crowd(28)
    together = policy.sample(requests)
    assert len(together) == len(requests)
    for one, both in zip(requests, together, strict=True):
        assert same(policy.sample([one])[0], both)
        assert 1 <= len(both.token_ids) <= one.sampling.max_tokens
        if both.finish_reason == "length":
            assert len(both.token_ids) == one.sampling.max_tokens


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that receives the number of rows of each pass through the decoder, prompts and steps."""
    seen: list[int] = []
    for owner, name in ((Decoder, "hidden"), (NumbaDecodeStep, "__call__")):
        _count(monkeypatch, owner, name, seen)
    return seen


def _count(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, seen: list[int]) -> None:
    inner = getattr(owner, name)

    def counted(instance: Any, tokens_N: Tensor, *rest: Any, **options: Any) -> Tensor:
        # The warm-up of an executor is no inference and is not counted.
        if torch.is_inference_mode_enabled():
            seen.append(len(tokens_N))
        return inner(instance, tokens_N, *rest, **options)

    monkeypatch.setattr(owner, name, counted)


# On a GPU, the host looks at tokens while the next ones are sampled, and rows are computed in buckets.
@pytest.mark.slow
@pytest.mark.parametrize("rows", [4, 11])
def test_a_host_that_looks_later_and_less_often_changes_nothing(
    tiny_policy: Build, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=rows))
    requests = [*crowd(28), request("a", "stop", 99, 30, stop=("a", "e", "i"))]
    often = policy.sample(requests)
    monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
    seen: list[int] = []
    seldom = policy.sample(requests, lambda index, _: seen.append(index))
    assert all(same(one, other) for one, other in zip(often, seldom, strict=True))
    assert sorted(seen) == list(range(29))


def test_recorded_steps_that_are_repeated_change_nothing(tiny_policy: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tiny_policy("qwen3", sampling=SamplingConfig(batch_rows=19))
    requests = [*crowd(40), request("a", "greedy", 98, 30, temperature=0.0), request("c", "long", 99, 60)]
    expected = policy.sample(requests)
    monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
    recorder = OperationRecorder()
    monkeypatch.setattr(recorded, "recorder_of", lambda _: recorder)
    assert all(same(one, other) for one, other in zip(expected, policy.sample(requests), strict=True))
    # Steps of 8, 16 and all 19 rows, and drawing their tokens.
    assert 4 <= recorder.recordings <= 9
    assert recorder.repetitions > 60


@pytest.mark.slow
def test_a_kept_batch_repeats_what_was_recorded_for_earlier_ones_with_the_weights_of_now(
    tiny_policy: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tiny_policy("qwen3", sampling=SamplingConfig(batch_rows=19))
    requests = [*crowd(40), request("a", "greedy", 98, 30, temperature=0.0), request("c", "long", 99, 60)]
    # The weights of the second time are other ones, and a batch of another shape comes in between.
    rounds = [(requests, 0), (requests[:3], 1), (requests, 2), (requests[::-1], 2)]
    expected = [_sampled_by(plain, asked, seed) for asked, seed in rounds]
    assert not all(same(one, other) for one, other in zip(expected[0], expected[2], strict=True))

    monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
    recorder = OperationRecorder()
    monkeypatch.setattr(recorded, "recorder_of", lambda device: recorder)
    monkeypatch.setattr(device_batch, "kept_bytes", lambda device: 10**8)
    kept = tiny_policy("qwen3", sampling=SamplingConfig(batch_rows=19))
    recordings: list[int] = []
    for (asked, seed), texts in zip(rounds, expected, strict=True):
        assert all(same(one, other) for one, other in zip(texts, _sampled_by(kept, asked, seed), strict=True))
        recordings.append(recorder.recordings)
    assert recordings[0] < recordings[1] < recordings[2] + 4
    # By the third round every number of rows was there twice.
    assert recordings[2] == recordings[3]


def _sampled_by(policy: TinyPolicy, requests: list[Request], seed: int) -> list[Completion]:
    """Returns completions by members whose weights follow from a seed."""
    for number, member in enumerate("abc"):
        policy.adapters.write(member, noisy(policy.adapters, 10 * seed + number, rank=4))
    return policy.sample(requests)


def test_a_batch_that_was_broken_off_is_not_kept(tiny_policy: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_batch, "kept_bytes", lambda device: 10**8)
    policy = tiny_policy()
    requests = crowd(20)
    expected = policy.sample(requests)

    def stop(index: int, completion: Completion) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        policy.sample(requests, stop)
    assert all(same(one, other) for one, other in zip(expected, policy.sample(requests), strict=True))


def test_kept_batches_stay_within_their_budget(tiny_policy: Build) -> None:
    policy = tiny_policy()

    def again(batches: DeviceBatches, *shape: int) -> DeviceBatch:
        batch = batches.open(*shape)
        batches.keep(batch)
        return batch

    roomy = DeviceBatches(policy.base.decoder, policy.adapters, 10**8)
    first = again(roomy, 5, 100, 20, 4)
    assert isinstance(first.cache, KVCache)
    # The shape is that of the bucket, so that it does not depend on which batch came first.
    assert (first.capacity, first.cache.keys.shape[3]) == (8, 128)
    assert again(roomy, 7, 128, 60, 4) is first
    assert again(roomy, 9, 128, 60, 4) is not first
    assert again(roomy, 7, 128, 60, 4) is first

    # fp32 keys and values of a token, and its logits twice.
    token = 2 * first.cache.keys[:, 0, :, 0].numel() * 4
    tight = DeviceBatches(policy.base.decoder, policy.adapters, 8 * (128 * token + policy.base.decoder.vocabulary * 8))
    first = again(tight, 5, 100, 20, 4)
    assert again(tight, 5, 100, 20, 4) is first
    # One more token a row, and another shape: the first batch goes.
    assert again(tight, 5, 100, 129, 4) is not first
    assert again(tight, 5, 100, 20, 4) is not first
    # What is larger than the budget is not kept, and has just the shape that was asked for.
    large = again(tight, 20, 100, 20, 4)
    assert large.capacity == 20
    assert again(tight, 20, 100, 20, 4) is not large


def test_finished_rows_leave_the_batch(tiny_policy: Build, passes: list[int]) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=8))
    # Seven of eight rows end early and no request waits, so the batch shrinks to the eighth.
    requests = [request("a", f"{i}", i, 3) for i in range(7)] + [request("b", "long", 9, 30)]
    rows = policy.sample(requests)
    assert [len(r.token_ids) for r in rows] == [3] * 7 + [30]
    assert passes == [7 + 4, 8, 8, *[1] * 27]


def test_free_rows_are_taken_by_waiting_requests(tiny_policy: Build, passes: list[int]) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=8))
    requests = [request("abc"[i % 3], f"{i}", i, 3) for i in range(28)] + [request("b", "long", 9, 30)]
    rows = policy.sample(requests)
    # Steps of free rows are wasted. Few are: a row is free for one step at most while requests wait.
    needed = sum(len(r.token_ids) - 1 + len(r.prompt_ids) for r in rows[:28]) + 29 + 4
    assert needed <= sum(passes) < 1.2 * needed
    assert len(passes) < 50


def test_a_shared_prompt_is_computed_once(tiny_policy: Build, passes: list[int]) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=4))
    policy.sample([request("a", "hello there", s, 1) for s in range(4)])
    assert passes == [11]
    # Ten rows of one prompt fill a batch of four three times.
    passes.clear()
    policy.sample([request("a", "hello there", s, 1) for s in range(10)])
    assert passes == [11, 11, 11]


def test_prompts_are_computed_in_passes_of_limited_size(tiny_policy: Build, passes: list[int]) -> None:
    requests = [request("abc"[i % 3], "x" * length, i, 1) for i, length in enumerate((9, 30, 8, 7, 1, 5, 6))]
    whole = tiny_policy(sampling=SamplingConfig(prefill_tokens=100)).sample(requests)
    assert passes == [66]
    passes.clear()
    parts = tiny_policy(sampling=SamplingConfig(prefill_tokens=15)).sample(requests)
    # In the order of the members, the longest first. A prompt that is longer than a pass has one of its own.
    assert passes == [9, 7 + 6, 30, 1 + 8 + 5]
    assert all(same(one, other) for one, other in zip(whole, parts, strict=True))


@pytest.mark.parametrize("rows", [2, 64])
def test_shared_prompts_give_what_single_prompts_give(tiny_policy: Build, rows: int) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=rows))
    shared = policy.sample([request("a", "hello", s) for s in range(5)])
    single = [policy.sample([request("a", "hello", s)])[0] for s in range(5)]
    assert [c.token_ids for c in shared] == [c.token_ids for c in single]


def test_single_tokens(tiny_policy: Build) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=2))
    requests = [request(m, "hello", i, 1) for i, m in enumerate("abcab")]
    rows = policy.sample(requests)
    assert [len(r.token_ids) for r in rows] == [1] * 5
    for short, row in zip(requests, rows, strict=True):
        longer = policy.sample([replace(short, sampling=replace(short.sampling, max_tokens=5))])[0]
        assert longer.token_ids[:1] == row.token_ids


def test_no_requests_are_no_completions(tiny_policy: Build) -> None:
    assert tiny_policy().sample([]) == []


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_finished_is_called_once_for_each_request_with_what_is_returned(tiny_policy: Build, rows: int) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=rows))
    seen: list[tuple[int, Completion]] = []
    requests = crowd(20, 1)
    returned = policy.sample(requests, lambda index, row: seen.append((index, row)))
    assert sorted(index for index, _ in seen) == list(range(20))
    assert all(returned[index] is row for index, row in seen)


def test_short_texts_are_handed_over_before_long_ones_end(tiny_policy: Build) -> None:
    policy = tiny_policy()
    order: list[int] = []
    policy.sample([request("a", "hello", i, n) for i, n in enumerate((30, 2, 9))], lambda i, _: order.append(i))
    assert order == [1, 2, 0]


def test_an_error_of_the_callback_is_the_callers(tiny_policy: Build) -> None:
    policy = tiny_policy()
    expected = policy.sample([request("a", "hello", 0)])

    def fail(index: int, row: Completion) -> None:
        raise OSError(f"no room for {index}: {row.text}")

    with pytest.raises(OSError, match="no room for 0"):
        policy.sample([request("a", "hello", 0)], fail)
    assert policy.sample([request("a", "hello", 0)]) == expected


EVERYTHING = (*map(chr, range(128)), "�")  # every first token completes one of these stop strings


def test_a_long_row_that_is_moved_into_a_hole_goes_on(tiny_policy: Build) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=5))
    short = [request("b", "longer" * 3 + str(i), i, 90, stop=EVERYTHING) for i in range(4)]
    rows = policy.sample([*short, request("a", "long", 3, 90)])
    assert [len(r.token_ids) for r in rows] == [1, 1, 1, 1, 90]
    assert same(rows[-1], policy.sample([request("a", "long", 3, 90)])[0])


def test_a_free_row_needs_no_more_room_however_long_it_stays_free(tiny_policy: Build) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=16))
    # One free row of sixteen is too few for the batch to be compacted.
    others = [request("b", str(i), i, 90) for i in range(15)]
    rows = policy.sample([request("a", "x" * 120, 0, 1), *others])
    assert max(len(r.token_ids) for r in rows) == 90
    assert [len(r.token_ids) for r in rows[:1]] == [1]
    assert same(rows[-1], policy.sample([others[-1]])[0])
