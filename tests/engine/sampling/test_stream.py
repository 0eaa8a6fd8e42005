"""Further requests go into the running batch, at a place that does not depend on time, and change no text."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from redqueen.base.futures import finished
from redqueen.base.request_stream import FollowUp, in_rounds
from redqueen.config import SamplingConfig
from redqueen.engine.sampling import continuous_batch, device_batch
from redqueen.engine.sampling.continuous_batch import BatchLimits, ContinuousBatch, OnRow, RowGroup
from redqueen.engine.sampling.tokens import Row
from redqueen.records import Completion, Request, SamplingParams
from tests.engine.conftest import Build
from tests.engine.requests import crowd, request, same

FIRST = 12


def first_requests() -> list[Request]:
    return [request("abc"[i % 3], "p" * (20 + i), i, 4 + 3 * (i % 5)) for i in range(FIRST)]


def further(index: int) -> list[Request]:
    """Returns what request `index` leads to: nothing, or several requests for one prompt."""
    if index >= FIRST or index % 4 == 3:
        return []
    return [request("bca"[index % 3], "q" * (1 + index), 100 * index + n, 2 + index) for n in range(3)]


def at_once(index: int, completion: Completion) -> FollowUp[list[Request]] | None:
    """Leads to further requests whose verdict is there at once."""
    del completion
    return FollowUp(finished(index), further) if index < FIRST else None


def by_request(completions: Sequence[Completion]) -> dict[tuple[Any, ...], Completion]:
    """Returns the completions by what tells requests apart here: the member, the prompt and how many came before."""
    found: dict[tuple[Any, ...], Completion] = {}
    for one in completions:
        number = sum(key[:2] == (one.member, one.prompt_ids) for key in found)
        found[one.member, one.prompt_ids, number] = one
    return found


@pytest.mark.parametrize("rows", [5, 64])
@pytest.mark.parametrize("gpu", [False, True])
def test_texts_are_those_of_rounds(tiny_policy: Build, monkeypatch: pytest.MonkeyPatch, rows: int, gpu: bool) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=rows))
    requests = first_requests()
    one_by_one = by_request(in_rounds(policy, requests, at_once))
    rounds = policy.take_work()
    if gpu:
        monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
    monkeypatch.setattr(continuous_batch, "_POLLS_TO_FURTHER", 3)
    together = by_request(policy.stream(requests, at_once, 3 * FIRST))
    assert len(together) == FIRST + 9 * 3
    assert together.keys() == one_by_one.keys()
    assert all(same(together[key], one) for key, one in one_by_one.items())
    work = policy.take_work()
    assert work.sampled_tokens == rounds.sampled_tokens
    assert work.prompt_tokens == rounds.prompt_tokens


def test_a_late_verdict_changes_no_bit(tiny_policy: Build) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=7))
    rng = random.Random(0)

    def in_a_while(index: int, completion: Completion) -> FollowUp[list[Request]] | None:
        del completion
        if index >= FIRST:
            return None
        verdict: Future[int] = Future()
        threading.Timer(rng.random() / 50, verdict.set_result, (index,)).start()
        return FollowUp(verdict, further)

    requests = first_requests()
    assert policy.stream(requests, in_a_while, 3 * FIRST) == policy.stream(requests, at_once, 3 * FIRST)


def test_what_is_too_long_for_the_batch_gets_another_one(tiny_policy: Build) -> None:
    policy = tiny_policy()
    long = request("b", "y" * 60, 5, 30)

    def follow(index: int, completion: Completion) -> FollowUp[list[Request]] | None:
        del completion
        return None if index else FollowUp(finished([long, request("c", "z", 6, 3)]), list)

    written = policy.stream([request("a", "x", 1, 5)], follow, 2)
    assert len(written) == 3
    assert same(written[1], policy.sample([long])[0])


def test_an_error_of_the_judge_ends_the_stream(tiny_policy: Build) -> None:
    failed: Future[list[Request]] = Future()
    failed.set_exception(OSError("no space left"))
    with pytest.raises(OSError, match="no space left"):
        tiny_policy().stream(crowd(3), lambda index, _: FollowUp(failed, list) if index == 1 else None, 1)


class NoDevice:
    """Stands for the rows on a device: nothing is computed, and every token is 0."""

    def __init__(self, *arguments: Any) -> None:
        self.steps = arguments[5]
        self.shape = arguments[2:]
        self.rows = 0
        self.pages = None

    def width(self, rows: int) -> int:
        return rows

    def reserve(self, rows: int) -> bool:
        del rows
        return True

    def sample_steps(self, rows: int) -> NoDevice:
        self.rows = rows
        return self

    def wait(self) -> tuple[list[list[int]], list[list[float]]]:
        return [[0] * self.steps] * 512, [[0.0] * self.steps] * 512

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def long_tail(seed: int, count: int) -> list[int]:
    """Returns lengths with a mean of about 512 tokens and a long tail, at most 2048 (log-normal, sigma 0.9)."""
    rng = random.Random(seed)
    return [min(2048, max(8, round(rng.lognormvariate(5.85, 0.9)))) for _ in range(count)]


# The shape of a step of `paper_7b`: 192 proposals, four of five valid, 8 attempts each, 512 rows.
@pytest.mark.parametrize("rows", [512, pytest.param(128, marks=pytest.mark.slow)])
def test_one_stream_takes_fewer_decode_steps_than_two_waves(
    tiny_policy: Build, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    policy = tiny_policy()
    monkeypatch.setattr(device_batch, "DeviceBatch", NoDevice)
    monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
    model = continuous_batch.TextModel(policy.base.decoder, None, frozenset())
    proposals = long_tail(0, 192)
    attempts = long_tail(1, 192 * 8)

    def row(index: int, tokens: int) -> Row:
        return Row(index, (), SamplingParams(max_tokens=tokens), ())

    first = [RowGroup(0, (1,), [row(index, tokens)]) for index, tokens in enumerate(proposals)]
    # One text reaches the limit, so that the batch has room for every other.
    first[0].rows[0].sampling = SamplingParams(max_tokens=2048)

    def attempts_at(index: int) -> list[RowGroup]:
        if index % 5 == 4:
            return []
        return [RowGroup(0, (1,), [row(192 + 8 * index + n, attempts[8 * index + n]) for n in range(8)])]

    def steps(groups: list[RowGroup], on_row: OnRow, further: int) -> int:
        return ContinuousBatch(model, policy.adapters, BatchLimits(rows, 10**6), groups, on_row, further).run()

    waves = steps(first, lambda _: None, 0)
    valid = [group for index in range(192) for group in attempts_at(index)]
    waves += steps(valid, lambda _: None, 0)
    again = [RowGroup(0, (1,), [row(one.rows[0].index, one.max_tokens)]) for one in first]

    def lead_on(ended: Row) -> FollowUp[list[RowGroup]] | None:
        return FollowUp(finished(ended.index), attempts_at) if ended.index < 192 else None

    stream = steps(again, lead_on, 192 * 8)
    # docs/SCALING.md names these numbers.
    assert (waves, stream) == {512: (4812, 3716), 128: (8624, 6944)}[rows]
