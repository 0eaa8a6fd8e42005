"""Whole runs on bases that transformers' own modules compute: warm start, training, resume, export, evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from redqueen.config import AUTO_TARGETS, ModelConfig
from redqueen.engine.adapters import load_adapter
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.attention import SharedPrefix
from redqueen.engine.model.base import load
from redqueen.engine.model.hosted import HostedDecoder
from redqueen.engine.model.quantized import prepare
from tests import tiny
from tests.cli.conftest import SMALL
from tests.cli.running import redqueen
from tests.reference import LOGIT_ROUNDING

# The members start from a warm start here, and a hosted base runs in one process by itself.
SETTINGS = tuple(each for each in SMALL if not each.startswith(("population.init", "model.workers")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "quantize"), [("gemma3_text", "off"), ("phi3", "off"), ("gemma3_text", "nf4"), ("phi3", "torchao_int8")]
)
def test_a_hosted_base_is_trained_resumed_exported_and_evaluated(family: str, quantize: str, tmp_path: Path) -> None:
    if quantize != "off":
        pytest.importorskip({"nf4": "bitsandbytes", "torchao_int8": "torchao"}[quantize])
    model = tiny.make(tmp_path / "model", family, hidden=64)
    start, run, out = tmp_path / "start", tmp_path / "run", tmp_path / "out"
    base = (f"model.quantize={quantize}", *SETTINGS)
    how = ("--steps", "2", "--lessons", "2", "--proposals", "")
    done = redqueen("warm-start", str(start), "--model", str(model), *how, *base)
    assert done.returncode == 0, done.stderr
    done = redqueen(
        "train", "--run", str(run), "--model", str(model), "--steps", "3", f"population.init={start}", *base
    )
    assert done.returncode == 0, done.stderr
    assert "done: 3 steps" in done.stdout
    assert "sampled and trained in 1 process" in done.stdout
    done = redqueen("train", "--resume", str(run), "--steps", "4")
    assert done.returncode == 0, done.stderr
    done = redqueen("export", str(run), "best-student", str(out))
    assert done.returncode == 0, done.stderr

    # What PEFT reads computes what the run computed, on the same base.
    config = ModelConfig(name=str(model), dtype="float32", quantize=quantize, threads=1)  # pyright: ignore[reportArgumentType]
    ours = load(config)
    assert isinstance(ours.decoder, HostedDecoder)
    adapter, alpha = load_adapter(out)
    assert max(float(factors.b.abs().max()) for factors in adapter.values()) > 0, "the warm start has moved it"
    rank = next(iter(adapter.values())).a.shape[1]
    bank = AdapterBank(ours.decoder.sites, 1, rank, alpha, AUTO_TARGETS)
    bank.add("S0", adapter)
    ids = torch.tensor([65, 9, 31, 70, 60, 17])
    with torch.no_grad():
        states = ours.decoder.states(ids, ids, [SharedPrefix(0, 6)], lambda rows: bank.rows([0], rows))
        found = ours.decoder.logits(states)
        theirs = load(config).model if quantize != "off" else AutoModelForCausalLM.from_pretrained(model)
        wrapped = PeftModel.from_pretrained(theirs, str(out))
        # In eval mode bitsandbytes would round inputs to bf16, on processors that multiply it.
        prepare(wrapped)
        expected = wrapped(input_ids=ids[None]).logits[0]
    assert (found - expected).abs().max() <= LOGIT_ROUNDING * float(expected.abs().max())

    done = redqueen("eval", str(run), "--limit", "2", "--max-tokens", "6", "--json", "--out", str(tmp_path / "eval"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"]
