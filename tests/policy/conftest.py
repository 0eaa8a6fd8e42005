from __future__ import annotations

from collections.abc import Callable

import pytest

from redqueen.config import LearningConfig, ModelConfig, SamplingConfig
from redqueen.policy.learning.learner import LocalLearner
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.base import Base
from redqueen.policy.sampling.sampler import LocalSampler
from tests.reference import noisy


class House:
    """A tiny base with members "a", "b", "c", each with an update of its own; the last has half of the bank's rank."""

    def __init__(self, base: Base, learning: LearningConfig, sampling: SamplingConfig, members: str = "abc") -> None:
        self.base = base
        self.bank = AdapterBank(base.decoder.sites, len(members), 4, 8.0, ModelConfig().targets)
        self.learner = LocalLearner(base, self.bank, learning, sampling.temperature)
        self.sampler = LocalSampler(base, self.bank, sampling)
        for i, name in enumerate(members):
            self.bank.add(name, noisy(self.bank, i, rank=2 if name == members[-1] else 4))
            self.learner.reset(name)


Build = Callable[..., House]


@pytest.fixture(scope="session")
def bases(new_base: Callable[..., Base]) -> Callable[[str], Base]:
    """`bases("qwen2")`: that family's fp32 base, loaded once; no test may change it."""
    made: dict[str, Base] = {}

    def base(family: str = "llama") -> Base:
        if family not in made:
            made[family] = new_base(family)
        return made[family]

    return base


@pytest.fixture
def house(bases: Callable[[str], Base]) -> Build:
    def build(
        family: str = "llama",
        learning: LearningConfig | None = None,
        sampling: SamplingConfig | None = None,
        members: str = "abc",
    ) -> House:
        return House(bases(family), learning or LearningConfig(), sampling or SamplingConfig(), members)

    return build
