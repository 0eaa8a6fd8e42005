from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redqueen.config import Config, LearningConfig, ModelConfig, SamplingConfig
from redqueen.errors import ModelError
from redqueen.game.prompt_lengths import prompt_lengths
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.memory.estimate import advice, check_fit, estimate, items, total
from redqueen.policy.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.policy.model.base import load
from redqueen.policy.model.dimensions import Shape, shape_of, token_counter
from redqueen.policy.sampling.kv_cache import KVCache
from redqueen.recipes import configure
from redqueen.records import PromptLengths
from tests import tiny

LENGTHS = PromptLengths(proposal=100, attempt=60)


def config_of(folder: Path, **learning: object) -> Config:
    model = ModelConfig(name=str(folder), dtype="float32", device="cpu", rank=4, threads=1, workers=1)
    return Config(model=model, learning=LearningConfig(batch_tokens=64, **learning))  # type: ignore[arg-type]


def sizes(config: Config, shape: Shape, members: int = 3) -> dict[str, int]:
    return {item.name.partition(" of ")[0]: item.total for item in items(config, shape, LENGTHS, members)}


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_base_and_members_have_the_sizes_of_the_real_tensors(tmp_path: Path, family: str) -> None:
    config = config_of(tiny.make(tmp_path, family))
    found = sizes(config, shape_of(config.model, download=False))
    base = load(config.model)
    bank = AdapterBank(base.decoder.sites, 3, 4, 8.0, config.model.targets)
    assert found["base weights"] == 4 * sum(p.numel() for p in base.model.parameters())
    assert found["base weights, stacked"] == 4 * sum(
        site.weight.numel() for layer in base.decoder.layers for site in (layer.qkv, layer.gate_up)
    )
    copies = sum(s.a_copy.numel() + sum(b.copy.numel() for b in s.projections) for s in bank.stacked.values())
    assert found["members: weights in fp32 and copies"] == 4 * (bank.masters.numel() + copies)
    assert found["members: gradients"] == bank.gradients().flat.nbytes
    assert found["members: AdamW moments"] == 8 * bank.masters.numel()


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_activations_are_what_the_forward_pass_saves(tmp_path: Path, family: str) -> None:
    config = config_of(tiny.make(tmp_path, family, hidden=64))
    base = load(config.model)
    bank = AdapterBank(base.decoder.sites, 1, 4, 8.0, config.model.targets)
    tokens = LENGTHS.proposal + config.sampling.proposal_tokens
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        base.decoder.hidden(
            torch.zeros(tokens, dtype=torch.long),
            torch.arange(tokens),
            SharedPrefixAttention([SharedPrefix(0, tokens)], torch.device("cpu")),
            bank.rows([0], [tokens], bank.gradients()),
        )
    weights = {t.untyped_storage().data_ptr() for t in [*base.model.parameters(), *base.model.buffers()]}
    made = sum(size for place, size in saved.items() if place not in weights)
    found = sizes(config, shape_of(config.model, download=False))["training: activations"]
    assert found == pytest.approx(made, rel=0.05)


def test_the_cache_is_as_large_as_the_real_one_while_it_grows(tmp_path: Path) -> None:
    config = config_of(tiny.make(tmp_path))
    shape = shape_of(config.model, download=False)
    item = next(i for i in items(config, shape, LENGTHS, 1) if i.name.startswith("sampling: cache"))
    rows, room = (int(word) for word in item.name.split() if word.isdigit())
    cache = KVCache(load(config.model).decoder, rows)
    cache.reserve(room - 32)
    before = cache.values.nbytes
    cache.reserve(room)
    assert item.size == pytest.approx(cache.keys.nbytes + cache.values.nbytes + before, rel=1e-6)


@settings(deadline=None)
@given(rank=st.integers(1, 64), members=st.integers(1, 16), tokens=st.integers(512, 8192), rows=st.integers(1, 256))
def test_more_of_anything_never_needs_less(rank: int, members: int, tokens: int, rows: int) -> None:
    shape = Shape(4, 64, 128, 4, 2, 16, 1000, 10**6, 10**6, 10**5, 5000, 7, False, torch.bfloat16)

    def need(rank: int, members: int, tokens: int, rows: int) -> int:
        model = ModelConfig(rank=rank, device="cpu", dtype="bfloat16", workers=1)
        config = Config(
            model=model, learning=LearningConfig(batch_tokens=tokens), sampling=SamplingConfig(batch_rows=rows)
        )
        return total(items(config, shape, LENGTHS, members))

    least = need(rank, members, tokens, rows)
    assert least < need(rank + 1, members, tokens, rows)
    assert least < need(rank, members + 1, tokens, rows)
    assert least < need(rank, members, tokens + 64, rows)
    assert least <= need(rank, members, tokens, rows + 1)


def test_the_knob_that_is_named_shrinks_the_need(tmp_path: Path) -> None:
    folder = tiny.make(tmp_path, layers=8)
    plain, less = config_of(folder), config_of(folder, checkpointing=True)
    shape = shape_of(plain.model, download=False)
    before, after = items(plain, shape, LENGTHS, 2), items(less, shape, LENGTHS, 2)
    activations = [item for item in before if item.name.startswith("training: activations")]
    assert advice(activations).startswith("set learning.checkpointing=true (training: activations of")
    assert total(after) < total(before)
    assert {item.knob for item in after} >= {"learning.batch_tokens", "sampling.batch_rows", "model.rank"}


def test_a_run_that_does_not_fit_is_refused_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tiny.make(tmp_path))

    class Little:
        available = 1000

    monkeypatch.setattr("redqueen.policy.memory.estimate.psutil.virtual_memory", lambda: Little)
    with pytest.raises(ModelError, match=r"needs about .* GiB, cpu has 0.0 GiB free: (set|lower) \w+\.\w+") as error:
        check_fit(config, LENGTHS, 4)
    assert "\n" not in str(error.value)


def test_a_model_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nothing"):
        estimate(config_of(tmp_path / "nothing"), LENGTHS, 2, download=False)
    with pytest.raises(ModelError, match="nothing"):
        token_counter(ModelConfig(name=str(tmp_path / "nothing")), download=False)


def resident(pids: list[int]) -> int:
    """Bytes of these processes, mapped files and shared memory counted once."""
    own, files, shared = 0, 0, 0
    for pid in pids:
        try:
            lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            parts = [int(lines[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile", "RssShmem")]
        except (OSError, KeyError):  # it has ended
            continue
        own, files, shared = own + parts[0], max(files, parts[1]), max(shared, parts[2])
    return own + files + shared


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_estimate_of_a_real_run_is_within_15_per_cent(tmp_path: Path, workers: int) -> None:
    args = [f"model.workers={workers}", "model.threads=1", "run.steps=3"]
    config = configure(args)
    lengths = prompt_lengths(config, token_counter(config.model, download=False))
    need = total(estimate(config, lengths, 4, download=False))
    command = [sys.executable, "-m", "redqueen", "train", *args, "--run", str(tmp_path / "run")]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
        most = 0
        while process.poll() is None:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            own = [int(pid) for pid in children.read_text().split()] if children.exists() else []
            crew = [pid for pid in own if b"spawn_main" in _command(pid)]
            most = max(most, resident([process.pid, *crew]))
            time.sleep(0.05)
    assert process.returncode == 0, (tmp_path / "log").read_text()
    assert need == pytest.approx(most, rel=0.15), f"estimated {need / 1e6:.0f} MB, measured {most / 1e6:.0f} MB"


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
