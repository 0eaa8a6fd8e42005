"""A replica fits its batches to the GPU that it has, and waits once for one that is not free yet."""

from __future__ import annotations

import pytest
import torch

from benchmarks.gpu.plans import lengths, on_a_gpu, shape
from redqueen.cluster import replica
from redqueen.cluster.replica import fitted_here
from redqueen.errors import ModelError
from redqueen.policy.memory import fit as fitting
from redqueen.policy.memory.fit import Memory

CONFIG = on_a_gpu("model.workers=1")


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The free GB of the GPU: each look takes the first of them. Time does not pass."""
    sizes: list[int] = []
    monkeypatch.setattr(fitting, "shape_of", lambda _: shape("0.5B"))
    monkeypatch.setattr(
        replica, "memory_here", lambda _: Memory(device=torch.device("cuda"), free=sizes.pop(0) * 10**9)
    )
    monkeypatch.setattr("time.sleep", lambda _: None)
    return sizes


def test_a_gpu_that_was_just_left_is_looked_at_again(free: list[int]) -> None:
    free += [1, 79]
    assert fitted_here(CONFIG, lengths(CONFIG), 8, 1).sampling.batch_rows == 512
    assert free == []


def test_a_gpu_that_stays_full_is_refused(free: list[int]) -> None:
    free += [1, 1]
    with pytest.raises(ModelError, match="needs at least"):
        fitted_here(CONFIG, lengths(CONFIG), 8, 1)
    assert free == []
