"""A vLLM engine on the embedded model, started once: it takes half a minute and more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redqueen.base.optional import is_installed
from redqueen.config import LearningConfig, ModelConfig, SamplingConfig
from redqueen.engine.executor import InlineExecutor
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import load
from redqueen.engine.policy import Policy
from redqueen.engine.sampling.continuous_batch import BatchLimits
from redqueen.engine.sampling.sampler import LocalSampler
from redqueen.extras.vllm import VllmExecutor
from redqueen.extras.vllm.engine import Engine
from tests.engine.conftest import bases, tiny_policy
from tests.reference import noisy

__all__ = ["bases", "tiny_policy"]

SLOTS = 4
MEMBERS = "abc"
# Small enough that the model still writes language, large enough that members write different texts.
NOISE = 0.03
MODEL = ModelConfig(dtype="float32", workers=1, device="cpu")


class TwoSamplers(Policy):
    """A policy that samples with vLLM, and the embedded sampler on the same members."""

    def __init__(self) -> None:
        # fp32, in which the two differ by rounding alone and choose the same tokens.
        base = load(MODEL)
        sampling = SamplingConfig(engine="vllm", batch_rows=16, vllm_cache_gb=0.5)
        bank = AdapterBank(base.decoder.sites, SLOTS, 8, 16.0, ModelConfig().targets)
        inline = InlineExecutor(base, bank)
        engine = Engine(base, SLOTS + 1, 8, sampling)
        self.vllm = VllmExecutor(base, bank, engine, inline)
        super().__init__(base, bank, self.vllm, sampling, LearningConfig(lr=3e-3), 1.0)
        limits = BatchLimits(sampling.batch_rows, sampling.prefill_tokens)
        self.embedded = LocalSampler(base, bank, limits, inline, self._versions, self.meter)
        for i, name in enumerate(MEMBERS):
            # The last one has half of the bank's rank, and so another scale.
            self.join(name, noisy(bank, i, rank=4 if name == MEMBERS[-1] else 8, b=NOISE))


@pytest.fixture(scope="session")
def policy() -> Iterator[TwoSamplers]:
    need_vllm()
    with TwoSamplers() as policy:
        yield policy


def need_vllm() -> None:
    if not is_installed("vllm"):
        pytest.skip("vllm is not installed: make test-vllm")
