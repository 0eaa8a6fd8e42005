"""A replica fits its batches to the GPU that it has, and waits once for one that is not free yet."""

from __future__ import annotations

import pytest

from benchmarks.gpu.plans import gpu, lengths, on_a_gpu
from redqueen.config import ModelConfig
from redqueen.engine.memory.machine import Machine
from redqueen.errors import ModelError
from redqueen.extras.ray.replica import ReplicaSettings, fitted_here

CONFIG = on_a_gpu("model.workers=1")
SETTINGS = ReplicaSettings(config=CONFIG, capacity=8, lengths=lengths(CONFIG.sampling.proposal_tokens))


class Gpu:
    """A GPU whose free GB differ from look to look."""

    def __init__(self, *free: int) -> None:
        self.free = list(free)

    def look(self, config: ModelConfig) -> Machine:
        del config
        return gpu("0.5B", self.free.pop(0))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def test_a_gpu_that_was_just_left_is_looked_at_again() -> None:
    there = Gpu(1, 79)
    assert fitted_here(SETTINGS, 1, there.look).sampling.batch_rows == 512
    assert there.free == []


def test_a_gpu_that_stays_full_is_refused() -> None:
    there = Gpu(1, 1)
    with pytest.raises(ModelError, match="needs at least"):
        fitted_here(SETTINGS, 1, there.look)
    assert there.free == []
