"""Compares the estimate with the bytes of real tensors, in both dtypes. `python -m benchmarks memory` measures runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redqueen.base.futures import finished
from redqueen.config import Config, LearningConfig, ModelConfig, SamplingConfig
from redqueen.engine.executor import InlineExecutor
from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.memory.estimate import Item, items, least, total
from redqueen.engine.memory.fit import advice
from redqueen.engine.memory.machine import Demand, Machine, this_machine
from redqueen.engine.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.engine.model.base import load
from redqueen.engine.model.dimensions import Shape, token_counter
from redqueen.engine.sampling import decode_step
from redqueen.engine.sampling.continuous_batch import BatchLimits, Row, RowGroup
from redqueen.engine.sampling.kv_cache import KVCache
from redqueen.errors import ModelError
from redqueen.records import PromptLengths, SamplingParams
from tests import tiny

LENGTHS = PromptLengths(proposal=100, attempt=60)
DTYPES = ("bfloat16", "float32")


def config_of(folder: Path, dtype: str = "float32", workers: int = 1, **learning: object) -> Config:
    model = ModelConfig(name=str(folder), dtype=dtype, device="cpu", rank=4, threads=1, workers=workers)  # type: ignore[arg-type]
    return Config(model=model, learning=LearningConfig(batch_tokens=64, **learning))  # type: ignore[arg-type]


def demand_of(config: Config, members: int = 3) -> Demand:
    return Demand.of(config, this_machine(config.model), LENGTHS, members)


def needed(config: Config, members: int = 3) -> list[Item]:
    return items(demand_of(config, members))


def sizes(config: Config, members: int = 3) -> dict[str, int]:
    return {item.name.partition(" of ")[0]: item.total for item in needed(config, members)}


def bytes_of(tensors: Sequence[torch.Tensor]) -> int:
    """Returns the bytes of these tensors' storages, each counted once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_base_and_members_have_the_sizes_of_the_real_tensors(tmp_path: Path, family: str, dtype: str) -> None:
    config = config_of(tiny.make(tmp_path, family), dtype)
    estimated = sizes(config)
    base = load(config.model)
    bank = AdapterBank(base.decoder.sites, 3, 4, 8.0, config.model.targets)
    assert estimated["base weights"] == bytes_of(list(base.model.parameters()))
    stacked_weights: list[torch.Tensor] = []
    for layer in base.decoder.layers:
        stacked_weights += [layer.qkv.weight, layer.gate_up.weight]
    stacks = bytes_of(stacked_weights)
    # The file holds fp32. Only in that dtype does the model use the mapped file, which then exists besides the stacks.
    assert estimated.get("base weights, stacked", 0) == (stacks if dtype == "float32" else 0)
    packed = [site.packed for site in (*base.decoder.sites, base.decoder.head) if site.packed is not None]
    assert estimated.get("base weights, packed", 0) == 2 * sum(tensor.numel() for tensor in packed)
    copies: list[torch.Tensor] = []
    for stacked in bank.stacked.values():
        copies += [stacked.a_copy, stacked.b_copy]
    assert estimated["members: weights in fp32 and copies"] == bytes_of([bank.masters, *copies])
    assert estimated["members: gradients"] == bytes_of([bank.gradients().flat])
    optimizer = torch.optim.AdamW([bank.masters])
    bank.masters.grad = torch.zeros_like(bank.masters)
    optimizer.step()
    state = optimizer.state[bank.masters]
    assert estimated["members: AdamW moments"] == bytes_of([state["exp_avg"], state["exp_avg_sq"]])


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_activations_are_what_the_forward_pass_saves(
    tmp_path: Path, family: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REDQUEEN_KERNELS", raising=False)
    config = config_of(tiny.make(tmp_path, family, hidden=64), dtype)
    base = load(config.model)
    bank = AdapterBank(base.decoder.sites, 1, 4, 8.0, config.model.targets)
    # Padded products take most for one long text. One call of flash attention lays out keys for each text of a group,
    # and the estimate is that of a group.
    batch = SharedPrefix(0, LENGTHS.proposal + config.sampling.proposal_tokens)
    if kernels_of(base.decoder.embed_VH).varlen is not None:
        texts = (config.sampling.attempt_tokens // 4,) * config.game.attempts
        batch = SharedPrefix(0, LENGTHS.attempt, texts)
    tokens = batch.end
    saved: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        base.decoder.hidden(
            torch.zeros(tokens, dtype=torch.long),
            torch.arange(tokens),
            SharedPrefixAttention([batch], torch.device("cpu")),
            bank.rows([0], [tokens], bank.gradients()),
        )
    weights = {t.untyped_storage().data_ptr() for t in [*base.model.parameters(), *base.model.buffers()]}
    activations = [tensor for tensor in saved if tensor.untyped_storage().data_ptr() not in weights]
    item = next(i for i in needed(config, 1) if "activations" in i.name)
    counted = int(item.name.split()[-2])
    assert item.size / counted == pytest.approx(bytes_of(activations) / tokens, rel=0.05)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_cache_is_as_large_as_the_real_one(tmp_path: Path, dtype: str) -> None:
    config = config_of(tiny.make(tmp_path), dtype)
    item = next(i for i in needed(config, 1) if i.name.startswith("sampling: cache"))
    rows, room = (int(word) for word in item.name.split() if word.isdigit())
    cache = KVCache(load(config.model).decoder, rows, room)
    assert item.size == cache.keys.nbytes + cache.values.nbytes


def test_the_heap_is_fragmented_by_what_it_holds_which_the_cache_is_not(tmp_path: Path) -> None:
    few, many = (config_of(tiny.make(tmp_path / name)) for name in ("few", "many"))
    many = many.model_copy(update={"sampling": few.sampling.model_copy(update={"attempt_tokens": 512})})
    small, large = sizes(few), sizes(many)
    heap = ("training: activations", "training: logits", "sampling: logits and prompts")
    for estimated in (small, large):
        share = sum(estimated[name] for name in heap)
        assert estimated["fragmentation"] == int(0.15 * share)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_base_in_a_dtype_that_is_not_packed_here_has_no_packed_copies(
    tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redqueen.engine.memory.estimate.packs", lambda _device, _dtype: False)
    config = config_of(tiny.make(tmp_path), dtype, workers=2)
    assert "base weights, packed" not in sizes(config)


@settings(deadline=None)
@given(rank=st.integers(1, 64), members=st.integers(1, 16), tokens=st.integers(512, 8192), rows=st.integers(1, 256))
def test_more_of_anything_never_needs_less(rank: int, members: int, tokens: int, rows: int) -> None:
    shape = Shape(4, 64, 128, 4, 2, 16, 1000, 10**6, 10**6, 10**5, 5000, 7, False, torch.bfloat16)
    machine = Machine(device=torch.device("cpu"), dtype=torch.bfloat16, workers=1, shape=shape)

    def need(rank: int, members: int, tokens: int, rows: int) -> int:
        model = ModelConfig(rank=rank, device="cpu", dtype="bfloat16", workers=1)
        config = Config(
            model=model, learning=LearningConfig(batch_tokens=tokens), sampling=SamplingConfig(batch_rows=rows)
        )
        return total(items(Demand.of(config, machine, LENGTHS, members)))

    least = need(rank, members, tokens, rows)
    assert least < need(rank + 1, members, tokens, rows)
    assert least < need(rank, members + 1, tokens, rows)
    assert least < need(rank, members, tokens + 64, rows)
    assert least <= need(rank, members, tokens, rows + 1)


def test_the_knob_that_is_named_shrinks_the_need(tmp_path: Path) -> None:
    folder = tiny.make(tmp_path, layers=8)
    plain, less = config_of(folder), config_of(folder, checkpointing=True)
    before, after = needed(plain, 2), needed(less, 2)
    activations = [item for item in before if item.name.startswith("training: activations")]
    assert advice(activations).startswith("set learning.checkpointing=true (training: activations of")
    assert total(after) < total(before)
    assert {item.knob for item in after} >= {"learning.batch_tokens", "sampling.batch_rows", "model.rank"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_least_that_a_run_needs_is_what_it_holds_and_its_shortest_step(tmp_path: Path, dtype: str) -> None:
    config = config_of(tiny.make(tmp_path), dtype)
    smallest = items(least(demand_of(config)))
    required = {item.name.partition(" of ")[0]: item.total for item in smallest}
    for name, size in sizes(config).items():
        assert required[name] <= size
        if name.startswith(("base", "members", "interpreter", "libraries")):
            assert required[name] == size
    # A micro-batch holds at least one prompt with one token after it.
    tokens = next(item.name for item in smallest if "activations" in item.name)
    assert tokens == f"training: activations of {LENGTHS.proposal + 1} tokens"


def test_a_model_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nothing"):
        this_machine(config_of(tmp_path / "nothing").model)
    with pytest.raises(ModelError, match="nothing"):
        token_counter(ModelConfig(name=str(tmp_path / "nothing")))


@pytest.mark.parametrize(("rows", "limits"), [(4096, (16, 200)), (4096, (200, 16)), (10, (64, 64)), (30, (8, 8))])
def test_a_stream_of_requests_makes_no_larger_cache_than_is_planned(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, rows: int, limits: tuple[int, int]
) -> None:
    caches: list[KVCache] = []

    def make(*arguments: Any) -> KVCache:
        caches.append(KVCache(*arguments))
        return caches[-1]

    monkeypatch.setattr(decode_step, "KVCache", make)
    config = config_of(tiny_folder("llama"))
    proposed, attempted = limits
    config = config.override(
        [
            f"sampling.batch_rows={rows}",
            f"sampling.proposal_tokens={proposed}",
            f"sampling.attempt_tokens={attempted}",
            "game.proposals=2",
            "game.attempts=3",
        ]
    )
    base = load(config.model)
    bank = AdapterBank(base.decoder.sites, 1, 4, 8.0, config.model.targets)
    matches = max(config.population.teachers, config.population.students)
    count = matches * len(config.game.kinds) * 2

    def group(first: int, prompt: int, texts: int, limit: int) -> RowGroup:
        params = SamplingParams(max_tokens=limit)
        return RowGroup(0, (1,) * prompt, [Row(first + i, (first, i), params, (), 1) for i in range(texts)])

    def on_row(row: Row) -> Future[Sequence[RowGroup]] | None:
        # Every proposal leads to the attempts at its task.
        return finished([group(1000 + 3 * row.index, LENGTHS.attempt, 3, attempted)]) if row.index < 1000 else None

    groups = [group(number, LENGTHS.proposal, 1, proposed) for number in range(count)]
    InlineExecutor(base, bank).sample(groups, BatchLimits(rows, 4096), on_row, 3 * count)
    planned = next(i for i in needed(config, 1) if i.name.startswith("sampling: cache"))
    assert max(cache.keys.nbytes + cache.values.nbytes for cache in caches) <= planned.size


def test_matches_against_champions_make_room_for_twice_the_texts(tiny_folder: Callable[[str], Path]) -> None:
    config = config_of(tiny_folder("llama")).override(["sampling.batch_rows=4096"])
    met = config.override(["league.hall_of_fame=2", "league.hall_matches=0.1"])

    def cache(config: Config) -> int:
        return next(item for item in needed(config) if item.name.startswith("sampling: cache")).size

    assert cache(config.override(["league.hall_of_fame=2"])) == cache(config)
    assert cache(met) == 2 * cache(config)
