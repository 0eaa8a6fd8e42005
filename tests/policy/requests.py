"""Requests to the sampler, and when two completions are the same."""

from __future__ import annotations

import random

import pytest

from redqueen.records import Completion, Prompt, Request


def request(member: str, text: str, seed: int, tokens: int = 12, stop: tuple[str, ...] = ()) -> Request:
    return Request(member=member, prompt=Prompt(text, stop), max_tokens=tokens, seed=(seed,))


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
    return (one.prompt_ids, one.token_ids, one.text, one.finished) == (
        other.prompt_ids,
        other.token_ids,
        other.text,
        other.finished,
    ) and one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
