"""Samples to learn from, and what becomes of a member's weights."""

from __future__ import annotations

import torch
from torch import Tensor

from redqueen.config import LearningConfig
from redqueen.records import Sample
from tests.policy.conftest import Build, TinyPolicy


def samples(member: str, count: int = 4, advantage: float = 1.0) -> list[Sample]:
    """Two attempts at each prompt, of different lengths, with advantages of both signs."""
    generator = torch.Generator().manual_seed(sum(map(ord, member)))

    def ids(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(1, 250, (n,), generator=generator).tolist())

    prompts = [ids(3 + i) for i in range((count + 1) // 2)]
    return [
        Sample(
            member=member,
            prompt_ids=prompts[i // 2],
            token_ids=ids(1 + i % 3),
            logprobs=(-1.0,) * (1 + i % 3),
            advantage=advantage * (1 if i % 2 else -0.5),
        )
        for i in range(count)
    ]


def weights(tiny_policy: TinyPolicy, member: str) -> Tensor:
    return tiny_policy.adapters.masters[tiny_policy.adapters.slots[member]].clone()


def twins(tiny_policy: Build, **options: object) -> tuple[TinyPolicy, TinyPolicy]:
    config = LearningConfig(lr=1e-2).model_copy(update=options)
    return tiny_policy(learning=config), tiny_policy(learning=config)


def steps_taken(tiny_policy: TinyPolicy, member: str, steps: int) -> list[Tensor]:
    """How far the member's weights moved in each of so many updates."""
    moved: list[Tensor] = []
    for _ in range(steps):
        before = weights(tiny_policy, member)
        tiny_policy.update(samples(member))
        moved.append(weights(tiny_policy, member) - before)
    return moved
