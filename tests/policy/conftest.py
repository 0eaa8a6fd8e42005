from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from redqueen.config import LearningConfig, ModelConfig, SamplingConfig
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.base import Base
from redqueen.policy.policy import Policy
from redqueen.policy.workers.inline import InlineExecutor
from tests.reference import noisy


class TinyPolicy(Policy):
    """A tiny base with members "a", "b", "c", each with an update of its own; the last has half of the bank's rank."""

    def __init__(
        self, base: Base, learning: LearningConfig, sampling: SamplingConfig, members: Sequence[str] = "abc"
    ) -> None:
        bank = AdapterBank(base.decoder.sites, len(members), 4, 8.0, ModelConfig().targets)
        super().__init__(base, bank, InlineExecutor(base, bank), sampling, learning, sampling.temperature)
        for i, name in enumerate(members):
            self.join(name, noisy(bank, i, rank=2 if name == members[-1] else 4))


Build = Callable[..., TinyPolicy]


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
def tiny_policy(bases: Callable[[str], Base]) -> Build:
    def build(
        family: str = "llama",
        learning: LearningConfig | None = None,
        sampling: SamplingConfig | None = None,
        members: Sequence[str] = "abc",
    ) -> TinyPolicy:
        return TinyPolicy(bases(family), learning or LearningConfig(), sampling or SamplingConfig(), members)

    return build
