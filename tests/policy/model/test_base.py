"""Checks loading of a base, its fingerprint and its dtype."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from redqueen.config import ModelConfig
from redqueen.errors import AdapterError, ModelError
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.base import dtype_of, fingerprint, load
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
