"""Builds samples and pairs of policies for tests of the learner, and reads members' weights."""

from __future__ import annotations

import torch
from torch import Tensor

from redqueen.config import LearningConfig
from redqueen.records import Sample
from tests.engine.conftest import Build, TinyPolicy


def samples(member: str, count: int = 4, advantage: float = 1.0) -> list[Sample]:
    """Returns two samples of each prompt, with different lengths and with advantages of both signs.

    They are texts that nobody sampled.
    """
    generator = torch.Generator().manual_seed(sum(map(ord, member)))

    def ids(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(1, 250, (n,), generator=generator).tolist())

    prompts = [ids(3 + i) for i in range((count + 1) // 2)]
    return [
        Sample(
            member=member,
            prompt_ids=prompts[i // 2],
            token_ids=ids(1 + i % 3),
            logprobs=(),
            advantage=advantage * (1 if i % 2 else -0.5),
        )
        for i in range(count)
    ]


def weights(tiny_policy: TinyPolicy, member: str) -> Tensor:
    """Returns a copy of a member's row of the masters."""
    return tiny_policy.adapters.masters[tiny_policy.adapters.slots[member]].clone()


def twins(tiny_policy: Build, **options: object) -> tuple[TinyPolicy, TinyPolicy]:
    """Returns two equal policies that share nothing but the base."""
    config = LearningConfig(lr=1e-2).model_copy(update=options)
    return tiny_policy(learning=config), tiny_policy(learning=config)


def steps_taken(tiny_policy: TinyPolicy, member: str, steps: int) -> list[Tensor]:
    """Takes `steps` updates of a member. Returns the change of its weights in each."""
    moved: list[Tensor] = []
    for _ in range(steps):
        before = weights(tiny_policy, member)
        tiny_policy.update(samples(member))
        moved.append(weights(tiny_policy, member) - before)
    return moved
