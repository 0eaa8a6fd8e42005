"""Worker processes give the texts and updates of a single process, and the end of a worker is noticed."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from redqueen.config import EngineSettings, LearningConfig, ModelConfig, SamplingConfig
from redqueen.engine.executor import InlineExecutor
from redqueen.engine.model.base import fingerprint, load
from redqueen.engine.policy import Policy, open_policy
from redqueen.engine.workers.pool import WorkerPool, partition_by_cost
from redqueen.errors import WorkerError
from redqueen.records import Completion, Sample
from tests.engine.requests import crowd, request, same
from tests.reference import noisy

pytestmark = pytest.mark.integration

SAMPLING = SamplingConfig(batch_rows=4)
LEARNING = LearningConfig(lr=1e-2, batch_tokens=64)


def fill(policy: Policy) -> None:
    """Sets the members "a", "b", "c" to their state at the start of every test, with fresh optimizers."""
    # A member joins in the slot that was freed last, so leaving in descending order gives each its old slot again.
    for name in sorted(policy.members, key=lambda name: policy.adapters.slots[name], reverse=True):
        policy.leave(name)
    for i, name in enumerate("abc"):
        policy.join(name, noisy(policy.adapters, i, rank=2 if name == "c" else 4))


@pytest.fixture(scope="module")
def config(tiny_folder: Callable[[str], Path]) -> ModelConfig:
    return ModelConfig(
        name=str(tiny_folder("qwen3")), dtype="float32", device="cpu", threads=1, workers=2, rank=4, alpha=8.0
    )


@pytest.fixture(scope="module")
def two_workers(config: ModelConfig) -> Iterator[Policy]:
    with open_policy(load(config), EngineSettings(config, SAMPLING, LEARNING), 3) as policy:
        assert isinstance(policy.executor, WorkerPool)
        yield policy


@pytest.fixture
def pooled(two_workers: Policy) -> Policy:
    """A policy with two workers, its members in their state at the start of every test."""
    fill(two_workers)
    return two_workers


@pytest.fixture
def inline(config: ModelConfig) -> Policy:
    """A policy with the same base and members in this process."""
    one = config.model_copy(update={"workers": 1})
    policy = open_policy(load(one), EngineSettings(one, SAMPLING, LEARNING), 3)
    assert isinstance(policy.executor, InlineExecutor)
    fill(policy)
    return policy


def test_texts_are_those_of_one_process_and_each_is_handed_over_once(pooled: Policy, inline: Policy) -> None:
    requests = crowd(30)
    seen: list[tuple[int, Completion]] = []
    together = pooled.sample(requests, lambda i, row: seen.append((i, row)))
    expected = inline.sample(requests)
    assert all(same(one, other) for one, other in zip(together, expected, strict=True))
    assert sorted(i for i, _ in seen) == list(range(30))
    assert all(together[i] is row for i, row in seen)


def samples(policy: Policy) -> list[Sample]:
    """Returns samples of all members, written by themselves, with advantages of both signs."""
    return [
        Sample(
            member=completion.member,
            prompt_ids=completion.prompt_ids,
            token_ids=completion.token_ids,
            logprobs=completion.logprobs,
            advantage=1.0 if i % 3 else -0.5,
        )
        for i, completion in enumerate(policy.sample(crowd(24, 2)))
    ]


def test_updates_are_those_of_one_process_and_repeat_to_the_bit(pooled: Policy, inline: Policy) -> None:
    rows = samples(inline)
    seen: list[tuple[int, int]] = []
    before = fingerprint(pooled.base.model)
    first = pooled.update(rows, lambda *p: seen.append(p))
    weights = pooled.adapters.masters.clone()
    fill(pooled)
    assert pooled.update(rows) == first
    assert torch.equal(pooled.adapters.masters, weights)
    for one, other in zip(first, inline.update(rows), strict=True):
        assert (one.loss, one.grad_norm) == pytest.approx((other.loss, other.grad_norm), rel=1e-4)
        assert one.tokens == other.tokens
        assert 0 < one.logprob_gap < 1e-4
    torch.testing.assert_close(pooled.adapters.masters, inline.adapters.masters, atol=1e-4, rtol=1e-4)
    assert len(seen) > 2
    assert seen[-1][0] == seen[-1][1]
    assert fingerprint(pooled.base.model) == before


def test_workers_see_what_is_written_to_a_member_and_what_it_learned(pooled: Policy, inline: Policy) -> None:
    before = pooled.sample([request(m, "hello", 0) for m in "abc"])
    rows = [s for s in samples(inline) if s.member == "a"]
    for policy in (pooled, inline):
        policy.leave("b")
        policy.join("d", noisy(policy.adapters, 9, rank=3))
    pooled.update(rows)
    requests = [request(m, "hello", 0) for m in "adc"]
    after = pooled.sample(requests)
    # The inline policy gets the pool's weights: the weights of an update of its own may differ in their last bits.
    inline.adapters.masters.copy_(pooled.adapters.masters)
    inline.adapters.refresh(*inline.members)
    assert all(same(one, other) for one, other in zip(after, inline.sample(requests), strict=True))
    assert same(after[2], before[2])
    assert after[0].token_ids != before[0].token_ids


def test_an_error_of_a_worker_is_the_callers_and_the_pool_goes_on(pooled: Policy) -> None:
    expected = pooled.sample(crowd(4))
    bad = [replace(r, seed=(b"no seed",)) for r in crowd(4)]  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="not JSON serializable"):
        pooled.sample(bad)
    assert pooled.sample(crowd(4)) == expected


def test_an_error_of_the_callback_leaves_nothing_behind_for_the_next_batch(pooled: Policy) -> None:
    expected = pooled.sample(crowd(20, 5))

    def fail(index: int, row: Completion) -> None:
        raise OSError(f"no room for {index}")

    with pytest.raises(OSError, match="no room"):
        pooled.sample(crowd(20, 4), fail)
    assert pooled.sample(crowd(20, 5)) == expected


@pytest.mark.slow
def test_an_ended_worker_is_an_error_that_says_what_to_do(config: ModelConfig) -> None:
    with open_policy(load(config), EngineSettings(config, SAMPLING, LEARNING), 3) as policy:
        assert isinstance(policy.executor, WorkerPool)
        fill(policy)
        os.kill(policy.executor.processes[1].pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match=r"exit code -9\); if memory ran out, lower"):
            policy.sample(crowd(20))
    policy.close()
    assert policy.executor.processes == []


@pytest.mark.slow
def test_ctrl_c_passes_by_a_worker_that_has_just_been_started(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    start = WorkerPool._start

    def interrupted(pool: WorkerPool, *args: Any) -> None:
        start(pool, *args)
        os.kill(pool.processes[-1].pid, signal.SIGINT)

    monkeypatch.setattr(WorkerPool, "_start", interrupted)
    with open_policy(load(config), EngineSettings(config, SAMPLING, LEARNING), 3) as policy:
        fill(policy)
        assert len(policy.sample(crowd(4))) == 4
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_worker_whose_pipe_closes_ends_without_a_word(config: ModelConfig, capfd: pytest.CaptureFixture[str]) -> None:
    with open_policy(load(config), EngineSettings(config, SAMPLING, LEARNING), 3) as policy:
        assert isinstance(policy.executor, WorkerPool)
        for pipe in policy.executor.pipes:
            pipe.send("no job")
            # An answer that nobody reads: the worker is told that the pipe was reset.
            assert pipe.poll(60)
            pipe.close()
        for process in policy.executor.processes:
            process.join(60)
            assert process.exitcode == 0
    assert "Traceback" not in capfd.readouterr().err


@given(st.lists(st.floats(0, 100), max_size=20), st.integers(1, 5))
def test_work_is_divided_evenly_and_in_order(costs: list[float], workers: int) -> None:
    items = list(range(len(costs)))
    shares = partition_by_cost(items, costs, workers)
    assert len(shares) == workers
    assert sorted(i for share in shares for i in share) == items
    assert all(share == sorted(share) for share in shares)
    loads = [math.fsum(costs[i] for i in share) for share in shares]
    assert max(loads) - min(loads) <= max(costs, default=0.0) + 1e-6


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_one_clear_error(config: ModelConfig, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"""
from redqueen.config import EngineSettings, ModelConfig
from redqueen.engine.model.base import load
from redqueen.engine.policy import open_policy
config = ModelConfig.model_validate({config.model_dump()!r})
open_policy(load(config), EngineSettings(config), 3)
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "WorkerError" in done.stderr.splitlines()[-1]
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]
