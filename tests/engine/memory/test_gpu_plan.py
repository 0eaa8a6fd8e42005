"""The plan of a GPU that need not be here: its sizes are those of meta tensors, and nothing is refused that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, Qwen2Config

from benchmarks.gpu.launches import micro_batch_cost, micro_batch_peak
from benchmarks.gpu.planned_memory import PlannedMemory
from benchmarks.gpu.plans import CARDS, gpu, lengths, on_a_gpu, table
from benchmarks.gpu.shapes import SEVEN_B, random_decoder, random_members
from benchmarks.gpu.workload import Draw, student_batch, teacher_batch
from redqueen.config import Config
from redqueen.config.recipes import recipe
from redqueen.engine.kernels.flash import flash_takes_pages
from redqueen.engine.learning.packing import PromptGroup, WeightedSample
from redqueen.engine.memory.estimate import (
    gradients_item,
    held_items,
    sampling_items,
    training_items,
)
from redqueen.engine.memory.fit import fit
from redqueen.engine.memory.machine import Demand
from redqueen.engine.sampling.device_batch import DeviceBatch
from redqueen.engine.sampling.kv_cache import PAGE, batch_pages
from redqueen.errors import ModelError
from redqueen.method.prompt_lengths import prompt_lengths
from redqueen.records import PromptLengths, Sample
from tests import tiny
from tests.cli.running import redqueen

META = torch.device("meta")
# The numbers are those of a torch whose flash attention reads pages.
pytestmark = pytest.mark.skipif(not flash_takes_pages(), reason="torch 2.12 or newer")
PAPER = on_a_gpu("model.workers=1", "learning.checkpointing=false")
LENGTHS = lengths(PAPER.sampling.proposal_tokens)


def group(prompt: int, texts: int, tokens: int) -> PromptGroup:
    sample = Sample(
        member="m0", prompt_ids=(1,) * prompt, token_ids=(2,) * tokens, logprobs=(-1.0,) * tokens, advantage=1.0
    )
    return PromptGroup(0, sample.prompt_ids, tuple(WeightedSample(sample, 0, 1.0) for _ in range(texts)))


@pytest.mark.parametrize(("prompt", "texts", "tokens"), [(203, 8, 512), (203, 8, 64), (1102, 1, 512)])
def test_activations_are_what_the_forward_pass_keeps(prompt: int, texts: int, tokens: int) -> None:
    groups = [group(prompt, texts, tokens)]
    rows = sum(each.tokens for each in groups)
    config = PAPER.override(
        [
            f"learning.batch_tokens={max(64, rows)}",
            "sampling.proposal_tokens=1",
            f"sampling.attempt_tokens={4 * tokens}",
        ]
    )
    config = config.override([f"game.attempts={texts}"] if texts > 1 else [])
    kept = micro_batch_cost(SEVEN_B, groups, checkpointing=False).kept
    item = training_items(Demand.of(config, gpu("7B"), PromptLengths(proposal=1, attempt=prompt), 8))[0]
    counted = int(item.name.split()[-2])
    estimated = item.size / counted / SEVEN_B.layers
    if texts == 1:
        # A proposal has its prompt for itself, so no key is laid out twice. The estimate, for attempts, is above.
        assert kept / rows <= estimated <= 1.05 * kept / rows
    else:
        assert estimated == pytest.approx(kept / rows, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("make", [student_batch, teacher_batch])
def test_the_peak_of_a_micro_batch_is_what_is_planned(make: Callable[[Draw, int], list[PromptGroup]]) -> None:
    small = SEVEN_B.with_layers(8)
    groups = make(Draw(SEVEN_B.vocabulary), 8192)
    rows = sum(each.tokens for each in groups)
    plans = PlannedMemory(small, 8)
    counted = micro_batch_peak(small, groups, checkpointing=False)
    # A layer's backward pass takes about what the head took, which is free again by then.
    planned = plans.micro_batch(rows, checkpointing=False)
    assert 0.9 * planned < counted < planned
    # A recomputed layer is planned twice, and the gradients that are computed from it seldom take as much.
    assert micro_batch_peak(small, groups, checkpointing=True) < plans.micro_batch(rows, checkpointing=True)


@pytest.mark.parametrize(("pages", "tokens"), [("off", 0), ("auto", 0), ("auto", 65536)])
def test_the_cache_is_that_of_the_tensors(monkeypatch: pytest.MonkeyPatch, pages: str, tokens: int) -> None:
    monkeypatch.setenv("REDQUEEN_PAGES", pages)
    config = PAPER.override(["sampling.batch_rows=128", f"sampling.cache_tokens={tokens}"])
    decoder = random_decoder(SEVEN_B.with_layers(2), META)
    bank = random_members(decoder, SEVEN_B, 1)
    demand = Demand.of(config, gpu("7B"), LENGTHS, 8)
    cache, _ = sampling_items(demand)
    made = DeviceBatch(decoder, bank, 128, demand.longest_text, 2048, 4, tokens).cache
    assert (made.pages is None) is (pages == "off")
    assert cache.size == (made.keys.nbytes + made.values.nbytes) * 28 // 2
    if tokens:
        assert made.keys[0, :, 0].numel() == (65536 + 256) * SEVEN_B.hidden // SEVEN_B.heads


def test_the_members_are_those_of_the_tensors() -> None:
    demand = Demand.of(PAPER, gpu("7B"), LENGTHS, 8)
    decoder = random_decoder(SEVEN_B.with_layers(2), META)

    members = {item.name: item.size for item in held_items(demand)}
    bank = random_members(decoder, SEVEN_B, 8)
    copies = sum(stacked.a_copy.nbytes + stacked.b_copy.nbytes for stacked in bank.stacked.values())
    held = (bank.masters.nbytes + copies) * 28 / 2
    assert members["members: weights in fp32 and copies"] == pytest.approx(held, rel=0.02)
    assert gradients_item(demand).size == pytest.approx(bank.masters.nbytes * 28 / 2, rel=0.02)
    assert members["members: AdamW moments"] == pytest.approx(2 * bank.masters.nbytes * 28 / 2, rel=0.02)


def test_a_larger_card_never_gets_smaller_batches_and_every_card_has_a_plan_for_7b() -> None:
    rows = [row for row in table() if row["base"] == "7B"]
    assert [row["card"] for row in rows] == list(CARDS)
    assert all(row["rank"] and row["needs_gb"] <= row["card"] for row in rows)
    assert [row["rows"] for row in rows] == sorted(row["rows"] for row in rows)
    assert rows[-1]["recomputes"] is False
    # Rows take pages as they grow, so that the largest cards have pages for as many as are ever planned.
    assert [row["rows"] for row in rows[-2:]] == [512, 512]
    # A text is never split: smaller micro-batches than the longest text would save no memory and take more time.
    assert all(row["batch_tokens"] >= 4096 for row in rows)


def test_prompts_are_as_long_as_a_run_takes_them_to_be() -> None:
    for limit in ("512", "2048"):
        config = on_a_gpu(f"sampling.proposal_tokens={limit}")
        # Attempts show what teachers may write, whatever the tokenizer.
        planned = lengths(config.sampling.proposal_tokens)
        assert prompt_lengths(config.play_settings, lambda _: 1).attempt == planned.attempt == int(limit)


def test_texts_that_are_longer_than_the_games_find_no_more_pages_than_there_are() -> None:
    asked = recipe("coder_3b").override(
        ["model.device=cuda", "model.dtype=bfloat16", "sampling.attempt_tokens=128", "sampling.proposal_tokens=128"]
    )
    card = gpu("3B", 40)
    found = fit(asked, card, lengths(128), 8)
    assert not any(change.startswith("sampling") for change in found.changes)
    # All students' answers to questions of mathematics, of 2,048 tokens, with prompts of 300.
    rows, room = 380, 2348
    pages = batch_pages(rows, room, found.config.sampling.cache_tokens)
    left = card.free - 2 * card.shape.weights
    assert pages * PAGE * card.token_bytes < left < batch_pages(rows, room) * PAGE * card.token_bytes


def test_what_was_asked_for_is_kept_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = recipe("paper_7b").override(
        [
            "model.device=cuda",
            "model.dtype=bfloat16",
            "sampling.batch_rows=100",
            "learning.batch_tokens=6000",
            "learning.checkpointing=true",
        ]
    )
    found = fit(asked, gpu("7B", 141), LENGTHS, 8)
    assert found.changes == ()
    assert found.config.sampling.batch_rows == 100
    assert found.config.learning.batch_tokens == 6000
    assert found.config.learning.checkpointing is True
    less = fit(asked, gpu("7B", 44), LENGTHS, 8)
    # All rows are there, but not all can be as long as they may be.
    assert [change.partition("=")[0] for change in less.changes] == ["sampling.cache_tokens", "sampling.prefill_tokens"]
    assert 10**5 < less.config.sampling.cache_tokens < 100 * 4096
    fewer = fit(asked.override(["sampling.cache_tokens=51200"]), gpu("7B", 141), LENGTHS, 8)
    assert fewer.changes == ()
    monkeypatch.setenv("REDQUEEN_PAGES", "off")
    assert "sampling.batch_rows=64" in fit(asked, gpu("7B", 44), LENGTHS, 8).changes


def test_a_machine_without_memory_for_the_base_is_refused() -> None:
    config = recipe("paper_7b").override(["model.device=cuda", "model.dtype=bfloat16"])
    with pytest.raises(ModelError, match="GiB of the machine's own memory to load and to save"):
        fit(config, replace(gpu("7B", 80), host=8 * 10**9), LENGTHS, 8)


def test_a_dry_run_plans_for_a_gpu_from_a_config_and_a_tokenizer(tmp_path: Path) -> None:
    folder = tiny.make(tmp_path / "tokens")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    Qwen2Config(
        vocab_size=152064,
        hidden_size=3584,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        intermediate_size=18944,
        tie_word_embeddings=False,
    ).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    done = redqueen("train", "paper_7b", f"model.name={tmp_path / 'base'}", "--dry-run", "--for", "80GiB", "--json")
    assert done.returncode == 0
    assert Config.model_validate_json(done.stdout).recipe == "paper_7b"
    assert "base weights" in done.stderr
    assert "host: members while they are saved" in done.stderr
    assert "84,181 MB are free there" in done.stderr
    assert "batches: " in done.stderr
    for size in ("80", "eighty", "80 apples"):
        refused = redqueen("train", "paper_7b", "--dry-run", "--for", size)
        assert refused.returncode == 2
        assert f"--for={size} is no size of memory" in refused.stderr
    assert "add --dry-run" in redqueen("train", "--for", "80GiB").stderr
