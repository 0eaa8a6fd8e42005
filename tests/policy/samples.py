"""Samples to learn from, and what becomes of a member's weights."""

from __future__ import annotations

import torch
from torch import Tensor

from redqueen.config import LearningConfig
from redqueen.records import Sample
from tests.policy.conftest import Build, House


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


def weights(house: House, member: str) -> Tensor:
    return house.bank.masters[house.bank.slots[member]].clone()


def twins(house: Build, **options: object) -> tuple[House, House]:
    config = LearningConfig(lr=1e-2).model_copy(update=options)
    return house(learning=config), house(learning=config)


def steps_taken(house: House, member: str, steps: int) -> list[Tensor]:
    """How far the member's weights moved in each of so many updates."""
    moved: list[Tensor] = []
    for _ in range(steps):
        before = weights(house, member)
        house.learner.update(samples(member))
        moved.append(weights(house, member) - before)
    return moved
