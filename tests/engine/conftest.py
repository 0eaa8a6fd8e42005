"""Fixtures for tests of the policy: tiny bases and policies on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from benchmarks.gpu import stand_ins
from redqueen.config import LearningConfig, ModelConfig, SamplingConfig
from redqueen.engine.executor import InlineExecutor
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import Base
from redqueen.engine.policy import Policy
from tests.reference import noisy


class TinyPolicy(Policy):
    """A policy on a tiny base. Its members have different updates; the last one has half of the bank's rank."""

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
    """Returns a function from a family to its fp32 base, which is loaded once. No test may change it."""
    loaded: dict[str, Base] = {}

    def base(family: str = "llama") -> Base:
        if family not in loaded:
            loaded[family] = new_base(family)
        return loaded[family]

    return base


@pytest.fixture
def tiny_policy(bases: Callable[[str], Base]) -> Build:
    """Returns a function that builds a `TinyPolicy`; every argument has a default."""

    def build(
        family: str = "llama",
        learning: LearningConfig | None = None,
        sampling: SamplingConfig | None = None,
        members: Sequence[str] = "abc",
    ) -> TinyPolicy:
        return TinyPolicy(bases(family), learning or LearningConfig(), sampling or SamplingConfig(), members)

    return build


@pytest.fixture(params=["cpu", "gpu"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test as on a CPU, and a second time with everything that a GPU does otherwise."""
    if request.param == "gpu":
        stand_ins.on_cpu()
        monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
