"""Requests to the sampler, and when two completions are the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from redqueen.records import Completion, Prompt, Request, SamplingParams


def request(
    member: str, text: str, seed: int, tokens: int = 12, stop: tuple[str, ...] = (), **sampling: Any
) -> Request:
    """A request for at most `tokens` tokens; `sampling` are its other parameters."""
    params = SamplingParams(max_tokens=tokens, **sampling)
    return Request(member=member, prompt=Prompt(text, stop), sampling=params, seed=(seed,))


def crowd(count: int, seed: int = 0) -> list[Request]:
    """Requests of all members, some with a prompt in common, prompts and limits of many lengths."""
    rng = random.Random(seed)
    made: list[Request] = []
    while len(made) < count:
        member, text, tokens = rng.choice("abc"), rng.choice("xyz") * rng.randint(1, 30), rng.choice((1, 2, 5, 9, 20))
        made += [request(member, text, len(made) + i, tokens) for i in range(rng.choice((1, 1, 2, 4)))]
    rng.shuffle(made)
    return made[:count]


def same(one: Completion, other: Completion) -> bool:
    return (one.prompt_ids, one.token_ids, one.text, one.finish_reason) == (
        other.prompt_ids,
        other.token_ids,
        other.text,
        other.finish_reason,
    ) and one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
