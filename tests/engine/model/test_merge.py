"""A merged model computes what base and adapter compute together: PEFT's own merge is the oracle."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from redqueen.engine.adapters import Factors, save_adapter
from redqueen.errors import AdapterError, ModelError
from redqueen.members.exporting import write_merged


def adapter(folder: Path) -> dict[str, Factors]:
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(folder)
    weights = {name: module.weight for name, module in model.named_modules() if name.endswith(("q_proj", "down_proj"))}
    return {name: Factors(torch.randn(w.shape[1], 2), torch.randn(2, w.shape[0])) for name, w in weights.items()}


def test_it_is_pefts_merge_and_loads_without_peft(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    base = tiny_folder("llama")
    factors = adapter(base)
    assert write_merged(tmp_path / "merged", str(base), factors, scale=1.5) == torch.float32
    save_adapter(tmp_path / "adapter", factors, alpha=3.0, base=str(base))
    ids = torch.tensor([[7, 30, 200, 5, 7]])
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), tmp_path / "adapter")
    with torch.no_grad():
        expected = loaded.merge_and_unload()(ids).logits
        merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")(ids).logits
    torch.testing.assert_close(merged, expected, rtol=1e-4, atol=1e-4)
    assert AutoTokenizer.from_pretrained(tmp_path / "merged")("f(").input_ids


def test_a_converter_to_gguf_finds_the_form_of_the_base(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    base = tiny_folder("llama")
    write_merged(tmp_path / "merged", str(base), adapter(base), scale=1.0)
    was, now = (json.loads((folder / "config.json").read_text()) for folder in (base, tmp_path / "merged"))
    assert now["architectures"] == ["LlamaForCausalLM"]
    for key in ("tie_word_embeddings", "rope_parameters", "rms_norm_eps", "bos_token_id", "eos_token_id"):
        assert now[key] == was[key], key
    # llama.cpp knows a tokenizer by what it makes of a text: a lost step before the merges would give another one.
    was, now = (json.loads((folder / "tokenizer.json").read_text()) for folder in (base, tmp_path / "merged"))
    for key in ("model", "pre_tokenizer", "added_tokens"):
        assert now[key] == was[key], key


def test_others_may_read_what_the_umask_lets_them_read(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    base = tiny_folder("llama")
    before = os.umask(0o022)
    try:
        write_merged(tmp_path / "merged", str(base), adapter(base), scale=1.0)
        save_adapter(tmp_path / "adapter", adapter(base), alpha=2.0, base=str(base))
    finally:
        os.umask(before)
    modes = {file.stat().st_mode & 0o777 for file in tmp_path.glob("*/*.safetensors")}
    assert modes == {0o644}


def test_an_adapter_of_another_base_is_refused(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    foreign = {"model.layers.9.self_attn.q_proj": Factors(torch.randn(4, 2), torch.randn(2, 4))}
    with pytest.raises(AdapterError, match=r"has no layer model\.layers\.9"):
        write_merged(tmp_path / "merged", str(tiny_folder("llama")), foreign, scale=1.0)
    with pytest.raises(ModelError, match="cannot load"):
        write_merged(tmp_path / "merged", str(tmp_path / "nothing"), foreign, scale=1.0)
