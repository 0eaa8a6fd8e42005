"""Checks loading of a base, its fingerprint and its dtype."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from redqueen.config import ModelConfig
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model import base as loading
from redqueen.engine.model.base import digest_of_files, dtype_of, fingerprint, fingerprint_of, load
from redqueen.errors import AdapterError, ModelError
from tests import tiny


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_local_folders_of_each_family_load_and_take_adapters(tmp_path: Path, family: str) -> None:
    folder = tiny.make(tmp_path, family)
    base = load(ModelConfig(name=str(folder), dtype="float32", threads=1, workers=1))
    assert base.model.config.model_type == family
    bank = AdapterBank(base.decoder.sites, 2, 4, 8.0, ModelConfig().targets)
    assert len(bank.places) == 2 * 7


def test_an_unknown_architecture_is_refused_by_name(tmp_path: Path) -> None:
    tiny.make(tmp_path)  # for its tokenizer
    config = AutoConfig.for_model("gpt2", n_layer=1, n_embd=8, n_head=2, vocab_size=16, bos_token_id=0, eos_token_id=0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="'gpt2' is not supported: its layers are Conv1D"):
        load(ModelConfig(name=str(tmp_path), dtype="float32", threads=1, workers=1))


def test_targets_that_the_model_lacks_are_named(tmp_path: Path) -> None:
    base = load(ModelConfig(name=str(tiny.make(tmp_path)), dtype="float32", threads=1, workers=1))
    with pytest.raises(AdapterError, match="no module named wq"):
        AdapterBank(base.decoder.sites, 1, 2, 4.0, ("q_proj", "wq"))


def test_a_model_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as error:
        load(ModelConfig(name=str(tmp_path / "nothing"), threads=1, workers=1))
    assert "nothing" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_fingerprint_sees_one_changed_weight_but_not_the_adapters(tmp_path: Path) -> None:
    base = load(ModelConfig(name=str(tiny.make(tmp_path)), dtype="float32", threads=1, workers=1))
    before = fingerprint(base.model)
    AdapterBank(base.decoder.sites, 2, 4, 8.0, ModelConfig().targets)
    assert fingerprint(base.model) == before
    with torch.no_grad():
        base.model.base_model.layers[0].mlp.up_proj.weight[0, 0] += 1e-3
    assert fingerprint(base.model) != before


def test_the_end_tokens_are_known(tmp_path: Path) -> None:
    base = load(ModelConfig(name=str(tiny.make(tmp_path)), dtype="float32", threads=1, workers=1))
    assert base.end_ids == {base.tokenizer.eos_token_id}


def test_the_environment_may_choose_what_auto_means(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        monkeypatch.setenv("REDQUEEN_DTYPE", name)
        assert dtype_of(ModelConfig(), cpu) == dtype
        assert dtype_of(ModelConfig(dtype="float32"), cpu) == torch.float32, "an explicit dtype overrides the variable"
    monkeypatch.setenv("REDQUEEN_DTYPE", "float16")
    with pytest.raises(ModelError, match="REDQUEEN_DTYPE=float16: set it to bfloat16 or float32"):
        dtype_of(ModelConfig(), cpu)


@pytest.mark.parametrize(
    ("capabilities", "dtype"),
    [
        ({"cpu_name": "AMD EPYC", "avx2": True}, torch.float32),
        ({"cpu_name": "AMD EPYC", "avx512_bf16": True}, torch.bfloat16),
        ({"cpu_name": "Intel Xeon", "avx512_bf16": True, "amx_bf16": True}, torch.bfloat16),
        ({"cpu_name": "Intel Xeon", "avx512_bf16": True, "amx_bf16": False}, torch.float32),
        ({"cpu_name": "Neoverse V2", "bf16": True}, torch.bfloat16),
        ({}, torch.float32),
    ],
)
def test_auto_is_bf16_where_a_processor_multiplies_it_faster_than_fp32(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, object], dtype: torch.dtype
) -> None:
    monkeypatch.delenv("REDQUEEN_DTYPE", raising=False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert dtype_of(ModelConfig(), torch.device("cpu")) == dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("largest", ["1GB", "5KB"])
def test_the_fingerprint_of_the_files_is_that_of_what_is_loaded_from_them(
    tmp_path: Path, dtype: torch.dtype, largest: str
) -> None:
    tiny.make(tmp_path, "qwen3")
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    model.save_pretrained(tmp_path, max_shard_size=largest)
    assert (tmp_path / "model.safetensors.index.json").exists() == (largest == "5KB")
    name = "float32" if dtype == torch.float32 else "bfloat16"
    base = load(ModelConfig(name=str(tmp_path), dtype=name, threads=1, workers=1))
    assert digest_of_files(str(tmp_path), base.model.named_parameters()) == fingerprint(base.model)


def test_weights_that_the_files_name_otherwise_are_not_read_from_them(tmp_path: Path) -> None:
    tiny.make(tmp_path)
    assert digest_of_files(str(tmp_path), [("model.other.weight", torch.zeros(1))]) is None
    (tmp_path / "model.safetensors").unlink()
    assert digest_of_files(str(tmp_path), [("model.norm.weight", torch.zeros(1))]) is None


def test_on_a_gpu_the_files_are_read_and_nothing_is_copied_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = load(ModelConfig(name=str(tiny.make(tmp_path)), dtype="float32", threads=1, workers=1))
    expected = fingerprint_of(base)
    monkeypatch.delattr(loading, "fingerprint")
    assert fingerprint_of(replace(base, device=torch.device("cuda"))) == expected


def test_weights_go_straight_to_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny.make(tmp_path)
    expected = load(ModelConfig(name=str(folder), dtype="bfloat16", threads=1, workers=1))
    # Without a GPU, a CPU is the device that they go to.
    monkeypatch.setattr(loading, "streams_to", lambda _: True)
    base = load(ModelConfig(name=str(folder), dtype="bfloat16", threads=1, workers=1))
    assert fingerprint(base.model) == fingerprint(expected.model)
    assert not any(hasattr(module, "_hf_hook") for module in base.model.modules())
