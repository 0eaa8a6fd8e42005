from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from redqueen.adapters.bank import AdapterBank, fresh
from redqueen.adapters.factors import Factors
from redqueen.config import LearningConfig, ModelConfig, SamplingConfig
from redqueen.policy.base import Base, load
from redqueen.policy.learner import LocalLearner
from redqueen.policy.sampler import LocalSampler
from tests import tiny


class House:
    """A tiny base with members "a", "b", "c", each with an update of its own."""

    def __init__(self, base: Base, learning: LearningConfig, sampling: SamplingConfig, members: str = "abc") -> None:
        self.base = base
        self.bank = AdapterBank(base.model, len(members), 4, 8.0, ModelConfig().targets)
        self.learner = LocalLearner(base, self.bank, learning, sampling.temperature)
        self.sampler = LocalSampler(base, self.bank, sampling)
        for i, name in enumerate(members):
            self.bank.add(name, noisy(self.bank, i))
            self.learner.reset(name)


def noisy(bank: AdapterBank, seed: int) -> dict[str, Factors]:
    """An adapter whose update is not zero."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: Factors(f.a, 0.3 * torch.randn(f.b.shape, generator=generator))
        for name, f in fresh(bank.shapes(), bank.rank, generator).items()
    }


Build = Callable[..., House]


@pytest.fixture
def house(tmp_path_factory: pytest.TempPathFactory) -> Build:
    def build(
        family: str = "llama",
        learning: LearningConfig | None = None,
        sampling: SamplingConfig | None = None,
        members: str = "abc",
    ) -> House:
        folder: Path = tiny.make(tmp_path_factory.mktemp("tiny"), family)
        base = load(ModelConfig(name=str(folder), dtype="float32", threads=1))
        return House(base, learning or LearningConfig(), sampling or SamplingConfig(), members)

    return build
