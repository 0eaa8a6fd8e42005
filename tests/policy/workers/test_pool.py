"""Worker processes: the same texts and the same updates as in one process, and an end that is noticed."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from redqueen.config import LearningConfig, ModelConfig, SamplingConfig
from redqueen.errors import WorkerError
from redqueen.policy.learning.learner import LocalLearner
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.base import Base, fingerprint, load
from redqueen.policy.sampling.sampler import LocalSampler
from redqueen.policy.workers.pool import Crew, deal, muster
from redqueen.records import Completion, Sample
from tests.policy.requests import crowd, request, same
from tests.reference import noisy

Team = tuple[Base, AdapterBank, Crew]
SAMPLING, LEARNING = SamplingConfig(batch_rows=4), LearningConfig(lr=1e-2, batch_tokens=64)


def fill(bank: AdapterBank) -> None:
    for i, name in enumerate("abc"):
        if name in bank.slots:
            bank.write(name, noisy(bank, i, rank=2 if name == "c" else 4))
        else:
            bank.add(name, noisy(bank, i, rank=2 if name == "c" else 4))


@pytest.fixture(scope="module")
def config(tiny_folder: Callable[[str], Path]) -> ModelConfig:
    return ModelConfig(
        name=str(tiny_folder("qwen3")), dtype="float32", device="cpu", threads=1, workers=2, rank=4, alpha=8.0
    )


@pytest.fixture(scope="module")
def shared(config: ModelConfig) -> Iterator[Team]:
    base = load(config)
    bank, crew = muster(base, config, 3)
    assert crew is not None
    with crew:
        yield base, bank, crew


@pytest.fixture
def team(shared: Team) -> Team:
    """Two workers; each test begins with the members as they were."""
    fill(shared[1])
    return shared


@pytest.fixture
def alone(config: ModelConfig) -> tuple[Base, AdapterBank]:
    """The same base and members in this process."""
    one = config.model_copy(update={"workers": 1})
    base = load(one)
    bank, crew = muster(base, one, 3)
    assert crew is None
    fill(bank)
    return base, bank


def learner(base: Base, bank: AdapterBank, crew: Crew | None) -> LocalLearner:
    made = LocalLearner(base, bank, LEARNING, 1.0, crew)
    for name in "abc":
        made.reset(name)
    return made


def test_texts_are_those_of_one_process_and_each_is_handed_over_once(
    team: Team, alone: tuple[Base, AdapterBank]
) -> None:
    base, bank, crew = team
    requests, seen = crowd(30), list[tuple[int, Completion]]()
    together = LocalSampler(base, bank, SAMPLING, crew).sample(requests, lambda i, row: seen.append((i, row)))
    expected = LocalSampler(*alone, SAMPLING).sample(requests)
    assert all(same(one, other) for one, other in zip(together, expected, strict=True))
    assert sorted(i for i, _ in seen) == list(range(30))
    assert all(together[i] is row for i, row in seen)


def samples(base: Base, bank: AdapterBank) -> list[Sample]:
    requests = crowd(24, 2)
    rows = LocalSampler(base, bank, SAMPLING).sample(requests)
    return [
        Sample(
            member=q.member,
            prompt_ids=r.prompt_ids,
            token_ids=r.token_ids,
            logprobs=r.logprobs,
            advantage=1.0 if i % 3 else -0.5,
        )
        for i, (q, r) in enumerate(zip(requests, rows, strict=True))
    ]


def test_updates_are_those_of_one_process_and_repeat_to_the_bit(team: Team, alone: tuple[Base, AdapterBank]) -> None:
    base, bank, crew = team
    rows, seen = samples(*alone), list[tuple[int, int]]()
    before = fingerprint(base.model)
    first = learner(base, bank, crew).update(rows, lambda *p: seen.append(p))
    weights = bank.masters.clone()
    fill(bank)
    assert learner(base, bank, crew).update(rows) == first
    assert torch.equal(bank.masters, weights)
    for one, other in zip(first, learner(*alone, None).update(rows), strict=True):
        assert (one.loss, one.grad_norm, one.entropy) == pytest.approx(
            (other.loss, other.grad_norm, other.entropy), rel=1e-4
        )
        assert one.tokens == other.tokens
        assert 0 < one.logprob_gap < 1e-4
    torch.testing.assert_close(bank.masters, alone[1].masters, atol=1e-4, rtol=1e-4)
    assert len(seen) > 2
    assert seen[-1][0] == seen[-1][1]
    assert fingerprint(base.model) == before


def test_workers_see_what_is_written_to_a_member_and_what_it_learned(
    team: Team, alone: tuple[Base, AdapterBank]
) -> None:
    base, bank, crew = team
    sampler, asked = LocalSampler(base, bank, SAMPLING, crew), [request(m, "hello", 0) for m in "abc"]
    before = sampler.sample(asked)
    bank.retire("b")
    bank.add("d", noisy(bank, 9, rank=3))
    learner_ = LocalLearner(base, bank, LEARNING, 1.0, crew)
    learner_.reset("a")
    learner_.update([s for s in samples(*alone) if s.member == "a"])
    after = sampler.sample([request(m, "hello", 0) for m in "adc"])
    expected = LocalSampler(base, bank, SAMPLING).sample([request(m, "hello", 0) for m in "adc"])
    bank.retire("d")
    assert all(same(one, other) for one, other in zip(after, expected, strict=True))
    assert after[2] == before[2]
    assert after[0].token_ids != before[0].token_ids


def test_an_error_of_a_worker_is_the_callers_and_the_crew_goes_on(team: Team) -> None:
    base, bank, crew = team
    sampler = LocalSampler(base, bank, SAMPLING, crew)
    expected = sampler.sample(crowd(4))
    bad = [replace(r, seed=(b"no seed",)) for r in crowd(4)]  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="not JSON serializable"):
        sampler.sample(bad)
    assert sampler.sample(crowd(4)) == expected


def test_an_error_of_the_callback_leaves_nothing_behind_for_the_next_batch(team: Team) -> None:
    base, bank, crew = team
    sampler = LocalSampler(base, bank, SAMPLING, crew)
    expected = sampler.sample(crowd(20, 5))

    def fail(index: int, row: Completion) -> None:
        raise OSError(f"no room for {index}")

    with pytest.raises(OSError, match="no room"):
        sampler.sample(crowd(20, 4), fail)
    assert sampler.sample(crowd(20, 5)) == expected


def test_an_ended_worker_is_an_error_that_says_what_to_do(config: ModelConfig) -> None:
    base = load(config)
    bank, crew = muster(base, config, 3)
    assert crew is not None
    fill(bank)
    with crew:
        os.kill(crew.processes[1].pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match=r"exit code -9\); if memory ran out, lower"):
            LocalSampler(base, bank, SAMPLING, crew).sample(crowd(20))
    crew.close()
    assert crew.processes == []


@given(st.lists(st.floats(0, 100), max_size=20), st.integers(1, 5))
def test_work_is_dealt_out_evenly_and_in_order(costs: list[float], hands: int) -> None:
    items = list(range(len(costs)))
    shares = deal(items, costs, hands)
    assert len(shares) == hands
    assert sorted(i for share in shares for i in share) == items
    assert all(share == sorted(share) for share in shares)
    held = [math.fsum(costs[i] for i in share) for share in shares]
    assert max(held) - min(held) <= max(costs, default=0.0) + 1e-6
