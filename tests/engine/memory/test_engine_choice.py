"""What `sampling.engine=auto` chooses, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from redqueen.config import Config, ConfigError
from redqueen.config.recipes import recipe
from redqueen.engine.memory import fit as memory
from redqueen.engine.memory.fit import fit, with_engine
from redqueen.engine.memory.machine import check_engine, gpu_machine, other_machine
from redqueen.records import PromptLengths

GB = 10**9
CUDA = torch.device("cuda")
LENGTHS = PromptLengths(proposal=900, attempt=1024)


@pytest.fixture
def vllm_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "is_installed", lambda name: name == "vllm")


def chosen(config: Config, free: int, device: torch.device = CUDA) -> tuple[str, float]:
    machine = replace(other_machine(config.model, device), free=free)
    sampling = with_engine(config.sampling, config.model, machine)
    return sampling.engine, sampling.vllm_cache_gb


def asked(name: str, *overrides: str) -> Config:
    return recipe(name).override(["sampling.engine=auto", *overrides])


@pytest.mark.usefixtures("vllm_is_there")
def test_it_is_vllm_where_its_copy_of_the_base_is_a_small_part_of_the_gpu() -> None:
    # A base of 7B takes 15.2 GB in bf16, and one of 0.5B takes 1 GB.
    assert chosen(asked("coder_7b"), 78 * GB) == ("vllm", 14.5)
    assert chosen(asked("coder_7b"), 70 * GB) == ("embedded", 2.0)
    assert chosen(asked("coder_0_5b"), 23 * GB) == ("vllm", 4.3)
    # On a CPU nothing changes, and what is said is kept.
    assert chosen(asked("coder_0_5b"), 78 * GB, torch.device("cpu")) == ("embedded", 2.0)
    assert chosen(asked("coder_7b", "sampling.vllm_cache_gb=6"), 78 * GB) == ("vllm", 6.0)
    assert chosen(recipe("coder_0_5b"), 78 * GB) == ("embedded", 2.0)
    # vLLM would have the base in 16 bits, and has no adapters of such a rank.
    assert chosen(asked("coder_0_5b", "model.quantize=nf4"), 78 * GB) == ("embedded", 2.0)
    assert chosen(asked("coder_0_5b", "model.rank=1024"), 78 * GB) == ("embedded", 2.0)
    assert chosen(recipe("coder_7b").override(["sampling.engine=vllm"]), 23 * GB) == ("vllm", 2.0)


def test_it_is_the_embedded_sampler_where_vllm_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "is_installed", lambda _name: False)
    assert chosen(asked("coder_0_5b"), 78 * GB) == ("embedded", 2.0)


@pytest.mark.usefixtures("vllm_is_there")
def test_a_plan_names_what_was_chosen_and_counts_it() -> None:
    config = asked("coder_1_5b", "model.device=cuda")
    found = fit(config, gpu_machine(config.model, 80 * GB), LENGTHS, 8)
    assert found.changes[:2] == ("sampling.engine=vllm", "sampling.vllm_cache_gb=14.6")
    assert found.config.sampling.engine == "vllm"
    small = fit(config, gpu_machine(config.model, 12 * GB), LENGTHS, 8)
    assert small.config.sampling.engine == "embedded"
    assert not any("engine" in change for change in small.changes)


def checked(config: Config) -> None:
    check_engine(config.model, config.sampling, config.learning, config.cluster)


def test_sampling_ahead_needs_vllm_and_not_perhaps() -> None:
    with pytest.raises(ConfigError, match=r"sampling\.engine=vllm"):
        checked(asked("coder_0_5b", "learning.max_staleness=1"))
