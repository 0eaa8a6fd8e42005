"""vLLM writes what the embedded sampler writes, and always with the weights that a member has now.

The tests run in their order and in one process: the last one kills the engine. `make test-vllm` has what they need.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest
import torch

from redqueen.errors import MismatchError, PromptError, WorkerError
from redqueen.extras.vllm.engine import Engine
from redqueen.records import Completion, Prompt, Request, Sample, SamplingParams
from tests.engine.requests import request
from tests.extras.vllm.conftest import MEMBERS, NOISE, TwoSamplers
from tests.reference import merged, noisy

TEXTS = (
    "def f(x):\n    return",
    "The capital of France is",
    "# add two numbers\ndef add(a, b):\n",
    "Once upon a time there was a",
)
# Logits of this base are up to about 30, and both samplers sum their terms in fp32 in orders of their own.
ROUNDING = 2e-3


def greedy(member: str, text: str, tokens: int = 24, stop: tuple[str, ...] = (), lines: int = 0) -> Request:
    prompt = Prompt(text, stop, max_lines=lines)
    return Request(member=member, prompt=prompt, sampling=SamplingParams(max_tokens=tokens, temperature=0), seed=(0,))


def agree(ours: Completion, theirs: Completion) -> None:
    assert theirs.token_ids == ours.token_ids
    assert theirs.text == ours.text
    assert theirs.finish_reason == ours.finish_reason
    assert theirs.logprobs == pytest.approx(ours.logprobs, abs=ROUNDING)


def engine_of(policy: TwoSamplers) -> Engine:
    assert isinstance(policy.vllm.engine, Engine)
    return policy.vllm.engine


def compare(policy: TwoSamplers, requests: list[Request]) -> list[Completion]:
    theirs = policy.sample(requests)
    for ours, other in zip(policy.embedded.sample(requests), theirs, strict=True):
        agree(ours, other)
    return theirs


def test_greedy_tokens_are_those_of_the_embedded_sampler(policy: TwoSamplers) -> None:
    completions = compare(policy, [greedy(member, text) for text in TEXTS for member in MEMBERS])
    # Members are told apart: a batch in which one adapter served all rows would pass otherwise.
    assert len({completion.token_ids for completion in completions[:3]}) == 3


def test_texts_end_where_those_of_the_embedded_sampler_end(policy: TwoSamplers) -> None:
    chat = Prompt("Say hello.", (), chat=True)
    ended = Request(member="a", prompt=chat, sampling=SamplingParams(max_tokens=40, temperature=0), seed=(0,))
    requests = [
        greedy("a", TEXTS[3], 40, stop=(" the", ".")),
        greedy("b", TEXTS[1], 40, stop=("zzzz",)),
        greedy("c", TEXTS[2], 40, lines=1),
        greedy("a", TEXTS[2], 40, lines=3),
        greedy("b", TEXTS[0], 1),
        ended,
    ]
    reasons = [completion.finish_reason for completion in compare(policy, requests)]
    assert "stop" in reasons
    assert "length" in reasons


def test_log_probabilities_are_those_of_the_distribution_that_was_sampled_from(policy: TwoSamplers) -> None:
    kinds = [{}, {"temperature": 0.7}, {"temperature": 1.3, "top_k": 9}, {"top_p": 0.6}]
    requests = [request("b", TEXTS[i], i, 12, **kind) for i, kind in enumerate(kinds)]
    model = merged(policy.base, policy.adapters, "b", torch.float32)
    for item, completion in zip(requests, policy.sample(requests), strict=True):
        ids = torch.tensor([completion.prompt_ids + completion.token_ids])
        with torch.no_grad():
            logits = model(ids).logits[0, len(completion.prompt_ids) - 1 : -1] / item.sampling.temperature
        p = logits.softmax(-1)
        ranked = p.sort(-1, descending=True).values
        kept = torch.ones(len(p))
        if item.sampling.top_k:
            kept = ranked[:, : item.sampling.top_k].sum(-1)
        elif item.sampling.top_p < 1:
            kept = (ranked * (ranked.cumsum(-1) - ranked < item.sampling.top_p)).sum(-1)
        expected = (p.gather(1, torch.tensor(completion.token_ids)[:, None])[:, 0] / kept).log()
        assert completion.logprobs == pytest.approx(expected.tolist(), abs=ROUNDING)


def test_a_seed_decides_what_is_sampled(policy: TwoSamplers) -> None:
    one, same, other = policy.sample([request("a", TEXTS[3], seed) for seed in (1, 1, 2)])
    assert one.token_ids == same.token_ids
    assert one.token_ids != other.token_ids


def test_a_prompt_that_is_too_long_is_refused_before_anything_is_sampled(policy: TwoSamplers) -> None:
    with pytest.raises(PromptError, match="of this base"):
        policy.sample([greedy("a", "x " * policy.vllm.engine.longest)])


def samples(policy: TwoSamplers, members: str, seed: int) -> list[Sample]:
    """Returns samples of texts that these members wrote just now."""
    requests = [request(member, text, seed + i, 6) for member in members for i, text in enumerate(TEXTS[:2])]
    return [
        Sample(
            member=completion.member,
            prompt_ids=completion.prompt_ids,
            token_ids=completion.token_ids,
            logprobs=completion.logprobs,
            advantage=1.0 if i % 2 else -1.0,
        )
        for i, completion in enumerate(policy.sample(requests))
    ]


def test_no_version_is_ever_stale_over_20_updates_births_and_deaths(policy: TwoSamplers) -> None:
    numbers: set[int] = set()
    for step in range(20):
        updates = policy.update(samples(policy, "".join(policy.members), step))
        # The learner computes the same probabilities anew: with other weights they would differ by tenths and more.
        assert max(update.logprob_gap for update in updates) < ROUNDING
        if step % 5 == 4:
            # A child takes the dead member's slot, once under its name too.
            policy.leave("b")
            policy.join("b", noisy(policy.adapters, 100 + step, b=NOISE))
        compare(policy, [greedy(member, TEXTS[0], 8) for member in policy.members])
        loaded = policy.vllm.versions.loaded
        numbers |= {version.number for version in loaded.values()}
        assert {version.name.partition("@")[0] for version in loaded.values()} == set(policy.members)
        assert set(engine_of(policy)._engine.list_loras()) == {version.number for version in loaded.values()}
    # Every member moved in every step, and no number came twice.
    assert len(numbers) == 60


def test_texts_that_are_written_while_the_learner_computes_are_one_version_old(policy: TwoSamplers) -> None:
    first = samples(policy, "a", 50)
    finish = policy.begin_update(first)
    number = policy.vllm.versions.loaded[policy.slot("a")].number
    stale = samples(policy, "a", 51)
    assert policy.vllm.versions.loaded[policy.slot("a")].number == number
    (moved,) = finish()
    assert moved.logprob_gap < ROUNDING
    # The learner has newer weights than these texts were written with, and counts that.
    (update,) = policy.update(stale)
    assert update.logprob_gap > ROUNDING
    fresh = samples(policy, "a", 52)
    assert policy.vllm.versions.loaded[policy.slot("a")].number > number
    (update,) = policy.update(fresh)
    assert update.logprob_gap < ROUNDING


def test_a_death_without_a_birth_is_unloaded(policy: TwoSamplers) -> None:
    policy.leave("c")
    policy.sample([greedy("a", TEXTS[0], 1)])
    assert len(engine_of(policy)._engine.list_loras()) == 2


def test_a_stale_adapter_stops_the_run(policy: TwoSamplers) -> None:
    policy.leave("a")
    policy.join("a", noisy(policy.adapters, 7, b=5 * NOISE))
    (slot,) = {policy.slot("a")}
    # The engine is made to believe that it has the new weights already.
    versions = policy.vllm.versions
    versions.loaded[slot] = replace(versions.loaded[slot], writes=policy.adapters.writes[slot])
    with pytest.raises(MismatchError, match="a: sampler and learner differ"):
        policy.update(samples(policy, "a", 0))


def test_a_killed_engine_is_one_line(policy: TwoSamplers) -> None:
    (process,) = engine_of(policy)._engine.engine_core.resources.engine_manager.processes
    killed: list[int] = []

    def kill(index: int, completion: Completion) -> None:
        if not killed:
            killed.append(index)
            os.kill(process.pid, signal.SIGKILL)

    requests = [greedy("b", TEXTS[3], 2), *(greedy("b", text, 60) for text in TEXTS)]
    with pytest.raises(WorkerError, match=r"the vLLM engine ended; .* resume from the last checkpoint"):
        policy.sample(requests, kill)
    with pytest.raises(WorkerError, match="the vLLM engine ended"):
        policy.sample(requests)
