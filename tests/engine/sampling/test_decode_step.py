"""Compiled decode steps agree with torch's operations and with float64."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.gpu import stand_ins
from redqueen.config import ModelConfig
from redqueen.engine.kernels import numba_decoding
from redqueen.engine.kernels.numba_floats import as_array
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.attention import SharedPrefix
from redqueen.engine.model.base import Base
from redqueen.engine.model.decoder import FAMILIES, Decoder, decoder_of
from redqueen.engine.sampling import decode_step as module
from redqueen.engine.sampling.decode_step import TorchDecodeStep, decode_step
from redqueen.engine.sampling.kv_cache import KVCache, Prefill, PrefillEntry
from redqueen.engine.sampling.numba_decode_step import NumbaDecodeStep
from tests.engine.model.test_decoder import model
from tests.reference import LOGIT_ROUNDING, logits, noisy

TARGETS = ModelConfig().targets
PROMPTS = [(5, 6, 7, 8), (9, 8), (3,), (30, 31, 32, 33, 34, 35)]


@pytest.fixture(autouse=True)
def torchs_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the oracle use torch's operations everywhere: with compiled kernels it would not be independent."""
    monkeypatch.setenv("REDQUEEN_KERNELS", "torch")


def bank_of(decoder: Decoder, rank: int = 4, targets: Sequence[str] = TARGETS) -> AdapterBank:
    """Returns a bank of five members of several ranks."""
    bank = AdapterBank(decoder.sites, 5, rank, 8.0, targets)
    for slot in range(5):
        bank.add(str(slot), noisy(bank, slot, rank=max(1, rank - slot)))
    return bank


def stepped(
    kind: Callable[..., Any], decoder: Decoder, bank: AdapterBank, slots: Sequence[int], tokens: int = 3
) -> Tensor:
    """Returns hidden states [tokens, R, H] of tokens after the prompts; row r belongs to `slots[r]`."""
    texts = [PROMPTS[r % len(PROMPTS)] for r in range(len(slots))]
    cache = KVCache(decoder, len(slots), max(map(len, PROMPTS)) + tokens)
    fills: list[PrefillEntry] = []
    for r, text in enumerate(texts):
        fills.append(PrefillEntry(SharedPrefix(fills[-1].prefix.end if fills else 0, len(text)), [r]))
    with torch.inference_mode():
        ids = torch.tensor(list(chain.from_iterable(texts)))
        decoder.hidden(ids, torch.cat([torch.arange(len(t)) for t in texts]), Prefill(cache, fills))
        one = kind(decoder, bank, cache)
        one.assign_rows(slots)
        return torch.stack([one(torch.arange(len(slots)) * 7 % 100 + t).clone() for t in range(tokens)])


# One row; one member with more rows than a task takes; rows in no order; members without rows.
SLOTS = [[3], [0] * 21, [4, 0, 2, 0, 4, 4, 2], [1, 1, 3, 3, 1], list(range(5)) * 3]


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_steps_are_those_of_torchs_operations(
    bases: Callable[[str], Base], family: str, slots: list[int]
) -> None:
    decoder = bases(family).decoder
    bank = bank_of(decoder)
    torch.testing.assert_close(
        stepped(NumbaDecodeStep, decoder, bank, slots),
        stepped(TorchDecodeStep, decoder, bank, slots),
        atol=LOGIT_ROUNDING,
        rtol=0,
    )


@pytest.mark.parametrize("rank", [1, 3, 16])
@pytest.mark.parametrize("targets", [("q_proj",), ("k_proj", "v_proj", "down_proj"), ("up_proj",), TARGETS])
def test_any_rank_and_any_layers(bases: Callable[[str], Base], rank: int, targets: tuple[str, ...]) -> None:
    decoder = bases("llama").decoder
    bank = bank_of(decoder, rank, targets)
    both = [stepped(kind, decoder, bank, [1, 0, 3, 1]) for kind in (NumbaDecodeStep, TorchDecodeStep)]
    torch.testing.assert_close(*both, atol=LOGIT_ROUNDING, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_in_bf16_compiled_steps_are_no_further_from_the_exact_numbers_than_torchs_operations(family: str) -> None:
    exact = decoder_of(model(family).double())
    rounded = decoder_of(model(family).bfloat16())
    # Enough rows and tokens that single roundings do not decide.
    slots = [4, 0, 2, 0, 1, 3, 3] * 3
    tokens = 20
    truth = stepped(TorchDecodeStep, exact, bank_of(exact), slots, tokens)
    ours, theirs = (
        stepped(kind, rounded, bank_of(rounded), slots, tokens).double() - truth
        for kind in (NumbaDecodeStep, TorchDecodeStep)
    )
    assert 0 < ours.norm() < 1.1 * theirs.norm() < 0.1 * truth.norm()


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])  # with biases, with norms of the heads
def test_in_bf16_a_gpus_steps_are_no_further_from_the_exact_numbers_than_plain_ones(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Flash attention takes heads of a multiple of 8.
    exact = decoder_of(model(family, head_dim=8).double())
    rounded = decoder_of(model(family, head_dim=8).bfloat16())
    slots = [4, 0, 2, 0, 1, 3, 3] * 3
    tokens = 20
    truth = stepped(TorchDecodeStep, exact, bank_of(exact), slots, tokens)
    plain = stepped(TorchDecodeStep, rounded, bank_of(rounded), slots, tokens).double() - truth
    # Flash attention, which the stand-ins compute, over a cache that the operator of heads has written to.
    stand_ins.on_cpu()
    monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
    monkeypatch.delenv("REDQUEEN_KERNELS")
    with mock.patch.object(module, "cached_heads", wraps=module.cached_heads) as written:
        gpus = stepped(TorchDecodeStep, rounded, bank_of(rounded), slots, tokens).double() - truth
    assert written.call_count == tokens * len(rounded.layers)
    assert 0 < gpus.norm() < 1.1 * plain.norm() < 0.1 * truth.norm()


def test_options_of_a_family_are_computed_too() -> None:
    # A head size other than hidden size / heads, biases on all layers, one kv head, scaled rotary embeddings.
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 1e4}
    options = {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1, "head_dim": 10}
    decoder = decoder_of(model("llama", rope_parameters=rope, **options))
    both = [stepped(kind, decoder, bank_of(decoder), [2, 1, 2]) for kind in (NumbaDecodeStep, TorchDecodeStep)]
    torch.testing.assert_close(*both, atol=LOGIT_ROUNDING, rtol=0)


def test_a_long_text_gives_what_one_pass_gives(bases: Callable[[str], Base]) -> None:
    decoder = bases("llama").decoder
    bank = AdapterBank(decoder.sites, 1, 1, 1.0, TARGETS)  # zeros: the base
    cache = KVCache(decoder, 1, 300)
    text = [int(t) for t in np.random.default_rng(0).integers(0, 100, 300)]
    one = NumbaDecodeStep(decoder, bank, cache)
    one.assign_rows([0])
    with torch.inference_mode():
        for token in text:
            hidden = one(torch.tensor([token]))
        torch.testing.assert_close(decoder.head(hidden)[0], logits(decoder, [text])[0][-1], atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", [NumbaDecodeStep, TorchDecodeStep])
@pytest.mark.parametrize("name", ["q_proj", "v_proj", "gate_proj", "down_proj"])
def test_what_is_not_a_number_shows_in_its_members_rows_only(
    bases: Callable[[str], Base], name: str, kind: Callable[..., Any]
) -> None:
    decoder = bases("llama").decoder
    bank = bank_of(decoder)
    block = "mlp" if name[0] in "gd" else "self_attn"
    factor_a, _ = bank.places[f"model.layers.0.{block}.{name}"].views(bank.masters[2])
    factor_a.fill_(float("nan"))
    bank.refresh("2")
    broken = stepped(kind, decoder, bank, [0, 2, 1, 2, 0]).isnan()
    assert broken[:, [1, 3]].all()
    assert not broken[:, [0, 2, 4]].any()


def test_the_device_and_the_dtype_choose(bases: Callable[[str], Base], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDQUEEN_KERNELS")
    decoder = bases("llama").decoder
    assert isinstance(decode_step(decoder, bank_of(decoder), KVCache(decoder, 1, 1)), NumbaDecodeStep)
    exact = decoder_of(model("llama").double())
    assert isinstance(decode_step(exact, bank_of(exact), KVCache(exact, 1, 1)), TorchDecodeStep)


@pytest.mark.parametrize("kind", [NumbaDecodeStep, TorchDecodeStep])
def test_rows_beyond_those_announced_are_refused(bases: Callable[[str], Base], kind: Callable[..., Any]) -> None:
    decoder = bases("llama").decoder
    cache = KVCache(decoder, 4, 9)
    one = kind(decoder, bank_of(decoder), cache)
    one.assign_rows([0, 1, 0])
    with torch.inference_mode():
        for rows in (2, 4):
            with pytest.raises(ValueError, match=f"{rows} rows"):
                one(torch.zeros(rows, dtype=torch.long))
        one(torch.zeros(3, dtype=torch.long))


def test_a_row_beyond_the_cache_is_refused(bases: Callable[[str], Base]) -> None:
    decoder = bases("llama").decoder
    cache = KVCache(decoder, 2, 5)
    cache.length_R[1] = 5
    one = NumbaDecodeStep(decoder, bank_of(decoder), cache)
    one.assign_rows([0, 1])
    with torch.inference_mode(), pytest.raises(ValueError, match="5 tokens, in a cache with room for 5"):
        one(torch.zeros(2, dtype=torch.long))


def rows_of(count: int, width: int) -> numba_decoding.RowTasks:
    tasks = np.array([(0, first, min(first + 8, count)) for first in range(0, count, 8)])
    wide = np.empty((8, width), np.float32)
    return numba_decoding.RowTasks(
        np.arange(count)[::-1].copy(), tasks, np.empty(8 * width, np.float32), wide[:, :1].copy(), wide
    )


def none(dtype: torch.dtype) -> numba_decoding.SiteFactors:
    empty = torch.empty(0, dtype=dtype)
    return numba_decoding.SiteFactors(as_array(empty.view(0, 0, 0)), as_array(empty), np.empty((0, 2), np.int64), 0)


# Every finite bf16 of ordinary size is summed with a small share of itself: ties must round to even.
def test_bf16_is_rounded_as_torch_rounds_it() -> None:
    every = torch.arange(2**16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    every = every[every.isfinite() & (every.abs() < 1e30) & (every.abs() > 1e-30)].view(-1, 2)
    for share in (0.0, 2**-8, -(2**-9), 0.3):
        stream, y = every.clone(), (every.float() * share).bfloat16()
        expected = stream + y
        out = torch.empty_like(stream)
        x = torch.empty(len(every), 1).bfloat16()
        norm = torch.ones(2).bfloat16()
        rows = rows_of(len(every), 2)
        numba_decoding.close(
            rows, none(torch.bfloat16), as_array(x), as_array(y), as_array(stream), as_array(norm), 1e-5, as_array(out)
        )
        assert torch.equal(stream.view(torch.int16), expected.view(torch.int16))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 5e-6), (torch.bfloat16, 2**-8)])
def test_the_gate_is_silu_over_the_whole_range(dtype: torch.dtype, tolerance: float) -> None:
    gate = torch.cat([torch.linspace(-80, 80, 10_000), torch.tensor([0.0, -0.0, 1e-30, -1e4, 1e4])]).to(dtype)[None]
    up = torch.full_like(gate, 1.7)
    out = torch.empty_like(gate)
    x = torch.empty(1, 1, dtype=dtype)
    width = 2 * gate.shape[1]
    numba_decoding.gate(rows_of(1, width), none(dtype), as_array(x), as_array(torch.cat([gate, up], 1)), as_array(out))
    expected = F.silu(gate.double()) * up.double()
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=1e-30)


HASH = """
import hashlib, torch
from redqueen.engine.sampling.numba_decode_step import NumbaDecodeStep
from redqueen.engine.model.decoder import decoder_of
from tests.engine.model.test_decoder import model
from tests.engine.sampling.test_decode_step import bank_of, stepped
sizes = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
decoder = decoder_of(model("llama", **sizes, head_dim=64).bfloat16())
states = stepped(NumbaDecodeStep, decoder, bank_of(decoder, 16), [3, 0, 2, 0, 1, 3, 3, 3, 3], 30)
print(hashlib.sha256(states.view(torch.uint8).numpy().tobytes()).hexdigest())
"""


# A compiled helper that is not inlined can round differently when it is loaded from the cache.
@pytest.mark.slow
def test_code_from_the_cache_rounds_as_code_just_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", HASH]
    hashes = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]
    assert any(tmp_path.rglob("*.nbc"))
    assert hashes[0] == hashes[1]
