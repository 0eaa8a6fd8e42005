"""The plan of hosted models: what real passes save, counted without memory, and one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from transformers import AutoConfig

from redqueen.config import AUTO_TARGETS, Config, ModelConfig
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.memory.estimate import items
from redqueen.engine.memory.fit import fit
from redqueen.engine.memory.hosted import saved_bytes, saved_per_token
from redqueen.engine.memory.machine import other_machine
from redqueen.engine.model.base import Base, load
from redqueen.engine.model.dimensions import shape_in
from redqueen.engine.model.hosted import HostedDecoder
from redqueen.errors import ModelError
from redqueen.records import PromptLengths
from tests import tiny
from tests.hosted import FAMILIES, tiny_model

LENGTH = 64
LENGTHS = PromptLengths(proposal=200, attempt=100)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gemma2", "gemma3", "phi3", "olmo2", "granite"])
def test_what_is_counted_without_memory_is_what_a_pass_saves(family: str) -> None:
    with FakeTensorMode():
        counted = saved_bytes(tiny_model(family), AUTO_TARGETS, 4, LENGTH)
    decoder = HostedDecoder(tiny_model(family))
    bank = AdapterBank(decoder.sites, 1, 4, 1.0, AUTO_TARGETS)
    weights = {
        tensor.untyped_storage().data_ptr() for tensor in (*decoder.model.parameters(), *decoder.model.buffers())
    }
    saved: dict[int, Tensor] = {}
    with (
        torch.enable_grad(),
        saved_tensors_hooks(
            lambda tensor: saved.setdefault(tensor.untyped_storage().data_ptr(), tensor), lambda tensor: tensor
        ),
    ):
        ids = torch.zeros(1, LENGTH, dtype=torch.long)
        decoder.run(bank.rows([0], [LENGTH], bank.gradients()), input_ids=ids, use_cache=False)
    held = sum(tensor.untyped_storage().nbytes() for key, tensor in saved.items() if key not in weights)
    # Masks are made where numbers cannot be read, and need not be where they can.
    masks = 4 * 8 * LENGTH * LENGTH
    assert held <= counted <= held + masks


def test_experts_are_counted_too(tmp_path: Path) -> None:
    model_type, options = FAMILIES["qwen3_moe"]
    AutoConfig.for_model(model_type, hidden_size=32, num_hidden_layers=2, **options).save_pretrained(tmp_path)
    one = saved_per_token(str(tmp_path), AUTO_TARGETS, 4, torch.bfloat16, LENGTH)
    assert saved_per_token(str(tmp_path), AUTO_TARGETS, 4, torch.float32, LENGTH) == pytest.approx(2 * one, abs=1)


def test_the_plan_of_a_hosted_model(tmp_path: Path) -> None:
    model = ModelConfig(name=str(tiny.make(tmp_path, "gemma3_text")), dtype="float32")
    config = Config(model=model)
    machine = replace(other_machine(model, torch.device("cpu")), free=8 << 30)
    assert machine.shape.hosted
    found = fit(config, machine, LENGTHS, 4)
    assert found.config.model.workers == 1
    assert "model.workers=1" not in found.changes
    names = [item.name for item in items(found.demand)]
    assert not {"base weights, stacked", "base weights, packed", "libraries in a worker"} & set(names)
    several = config.model_copy(update={"model": model.model_copy(update={"workers": 2})})
    with pytest.raises(ModelError, match="use model\\.workers=1"):
        fit(several, machine, LENGTHS, 4)
    with pytest.raises(ModelError, match="in one process"):
        load(several.model)


def test_a_hosted_base_is_loaded_by_itself(tmp_path: Path) -> None:
    base: Base = load(ModelConfig(name=str(tiny.make(tmp_path, "phi3")), dtype="float32", threads=1))
    assert isinstance(base.decoder, HostedDecoder)
    assert base.block is None
    bank = AdapterBank(base.decoder.sites, 1, 4, 8.0, AUTO_TARGETS)
    assert bank.targets == ("o_proj", "qkv_proj", "gate_up_proj", "down_proj")


def test_the_shape_of_a_quantised_base_counts_its_bits() -> None:
    model_type, options = FAMILIES["llama"]
    shell = AutoConfig.for_model(model_type, **options, tie_word_embeddings=False)
    plain = shape_in(shell, AUTO_TARGETS)
    quantised = shape_in(shell, AUTO_TARGETS, "nf4")
    assert (plain.hosted, quantised.hosted) == (False, True)
    assert plain.stored(torch.bfloat16) == 2 * plain.weights
    blocks = plain.linear - plain.vocabulary * plain.hidden
    saved = plain.stored(torch.bfloat16) - quantised.stored(torch.bfloat16)
    assert saved == pytest.approx(blocks * (2 - 4.127 / 8), rel=1e-3)
