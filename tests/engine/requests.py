"""Builds requests to the sampler and compares completions."""

from __future__ import annotations

import random
from typing import Any

import pytest

from redqueen.records import Completion, Prompt, Request, SamplingParams


def request(
    member: str, text: str, seed: int, tokens: int = 12, stop: tuple[str, ...] = (), **sampling: Any
) -> Request:
    """Returns a request for at most `tokens` tokens. `sampling` holds its other sampling parameters."""
    params = SamplingParams(max_tokens=tokens, **sampling)
    return Request(member=member, prompt=Prompt(text, stop), sampling=params, seed=(seed,))


def crowd(count: int, seed: int = 0) -> list[Request]:
    """Returns requests of all members, with prompts and limits of many lengths. Some share a prompt."""
    rng = random.Random(seed)
    requests: list[Request] = []
    while len(requests) < count:
        member = rng.choice("abc")
        text = rng.choice("xyz") * rng.randint(1, 30)
        tokens = rng.choice((1, 2, 5, 9, 20))
        requests += [request(member, text, len(requests) + i, tokens) for i in range(rng.choice((1, 1, 2, 4)))]
    rng.shuffle(requests)
    return requests[:count]


def same(one: Completion, other: Completion) -> bool:
    """Returns whether two completions are equal, up to rounding in their log-probabilities."""
    return (one.prompt_ids, one.token_ids, one.text, one.finish_reason) == (
        other.prompt_ids,
        other.token_ids,
        other.text,
        other.finish_reason,
    ) and one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
