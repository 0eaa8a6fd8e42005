"""Tests of the shared work: shares of rows, prompts, samples and the loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import system, workload
from benchmarks.llama import Llama
from benchmarks.peers import Missing, Peft, Populora, plain
from benchmarks.system import BenchmarkConfig
from benchmarks.timing import BenchmarkError
from redqueen.engine.model.base import Base
from redqueen.engine.policy import Policy
from redqueen.records import Sample
from redqueen.tasks.python import seeds

pytestmark = pytest.mark.integration

MEMBERS = 3


@given(st.integers(1, 200), st.integers(1, 16))
def test_shares_give_out_all_rows(rows: int, members: int) -> None:
    for shares in (
        workload.equal(rows, members),
        workload.half_for_one(rows, members),
        workload.falling(rows, members),
    ):
        assert sum(shares) == rows
        assert min(shares) >= 0
    assert max(workload.equal(rows, members)) - min(workload.equal(rows, members)) <= 1
    assert workload.half_for_one(rows, members)[0] == (rows if members == 1 else rows // 2)
    falling = workload.falling(rows, members)
    assert min(falling) >= 1
    assert len(falling) == min(rows, members)


def test_unequal_shares_of_rows() -> None:
    assert workload.falling(32, 8) == [12, 6, 4, 3, 2, 2, 2, 1]
    assert workload.half_for_one(16, 8) == [8, 2, 1, 1, 1, 1, 1, 1]
    assert workload.owners([2, 0, 1]) == ["m0", "m0", "m2"]


def test_prompts_are_different_and_exactly_as_long_as_asked(tiny_base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    few = seeds()[:20]
    # All places of all seed programs would be looked at before it is said that there are not so many.
    monkeypatch.setattr(workload, "seeds", lambda: few)
    texts = workload.prompts(tiny_base, 40, 52)
    assert len(set(texts)) == 40
    assert {len(tiny_base.tokenizer(text).input_ids) for text in texts} == {52}
    with pytest.raises(BenchmarkError, match="ask for fewer"):
        workload.prompts(tiny_base, 10**6, 52)


@pytest.mark.parametrize("shared", [True, False])
def test_a_group_shares_its_prompt_only_where_it_should(shared: bool) -> None:
    made = workload.samples(500, ["m0", "m1"], 9, 4, attempts=5, shared=shared)
    assert len(made) == 10
    assert len({s.prompt_ids for s in made}) == (2 if shared else 10)
    assert {(len(s.prompt_ids), len(s.token_ids), len(s.logprobs)) for s in made} == {(9, 4, 0)}
    assert 0 not in {s.advantage for s in made}
    assert made == workload.samples(500, ["m0", "m1"], 9, 4, attempts=5, shared=shared)


@pytest.fixture(scope="module")
def config(tiny_folder: Any) -> BenchmarkConfig:
    return BenchmarkConfig(str(tiny_folder("llama")), rank=4, dtype="float32")


@pytest.fixture(scope="module")
def work(config: BenchmarkConfig) -> tuple[Policy, dict[str, Any], list[Sample]]:
    ours = system.build(config, MEMBERS)
    adapters = {workload.name(i): system.adapter(ours, i) for i in range(MEMBERS)}
    return ours, adapters, workload.samples(200, workload.owners([2, 1, 1]), 9, 6)


def test_all_contenders_compute_the_same_loss(config: BenchmarkConfig, work: Any) -> None:
    ours, adapters, samples = work
    batch = workload.batch(samples)
    expected = sum(update.loss for update in ours.update(samples))
    peft = Peft(config, adapters)
    mixed = workload.loss(lambda **inputs: peft.mixed(batch.members, **inputs), peft.head_VH, batch)
    assert mixed.item() == pytest.approx(expected, rel=1e-4)
    mixed.backward()
    together = [weight.grad.clone() for weight in peft.weights]
    peft.optimizer.zero_grad()
    alone = 0.0
    for member in adapters:
        peft.model.set_adapter(member)
        part = workload.loss(peft.backbone, peft.head_VH, batch.part(member))
        part.backward()
        alone += part.item()
    assert alone == pytest.approx(expected, rel=1e-4)
    for one, other in zip(together, peft.weights, strict=True):
        torch.testing.assert_close(one, other.grad, rtol=1e-3, atol=1e-6)
    without = workload.loss(plain(config).base_model, peft.head_VH, batch)
    assert without.item() != pytest.approx(expected, rel=1e-4)


def test_populora_computes_the_same_loss(config: BenchmarkConfig, work: Any) -> None:
    pytest.importorskip("populora")
    _, adapters, samples = work
    # another test may have trained the members, so both sides start from `adapters` here
    peft, populora = Peft(config, adapters), Populora(config, adapters)
    batch = workload.batch(samples)
    expected = workload.loss(lambda **inputs: peft.mixed(batch.members, **inputs), peft.head_VH, batch)
    with populora.rows(batch.members):
        loss = workload.loss(populora.backbone, populora.head_VH, batch)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    batch = workload.batch(workload.samples(200, workload.owners([2, 2, 2]), 9, 6))
    expected = workload.loss(lambda **inputs: peft.mixed(batch.members, **inputs), peft.head_VH, batch)
    with populora.everyone():
        loss = workload.loss(populora.backbone, populora.head_VH, batch)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    loss.backward()
    assert all(w.grad is not None for w in populora.population.weight_down.values())


@pytest.mark.slow
def test_nothing_ends_a_row_early(work: Any) -> None:
    ours, _, _ = work
    texts = workload.prompts(ours.base, 6, 20)
    done = ours.sample(workload.requests(texts, workload.owners([3, 2, 1]), 30))
    assert {(len(c.prompt_ids), len(c.token_ids)) for c in done} == {(20, 30)}


def test_an_update_says_what_its_parts_took(work: Any) -> None:
    ours, _, samples = work
    timing = system.update(ours, samples)
    assert timing.tokens == 4 * 14
    assert 0 < timing.optimizer_cpu_s < timing.cpu_s


def test_an_update_that_trains_no_member_is_refused(work: Any) -> None:
    ours, _, samples = work
    idle = [
        Sample(member=s.member, prompt_ids=s.prompt_ids, token_ids=s.token_ids, logprobs=s.logprobs, advantage=0.0)
        for s in samples
    ]
    with pytest.raises(BenchmarkError, match="measure nothing"):
        system.update(ours, idle)


def test_llama_cpp_computes_the_same_logits(
    config: BenchmarkConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("llama_cpp")
    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path))
    model = plain(BenchmarkConfig(config.model, dtype="bfloat16"))
    ids = torch.randint(200, (3, 20), generator=torch.Generator().manual_seed(0))
    following = torch.tensor([[7], [8], [9]])
    with torch.no_grad():
        expected = [model(ids).logits[:, -1].float(), model(torch.cat([ids, following], 1)).logits[:, -1].float()]
    for _ in range(2):  # the second finds the file
        llama = Llama(model, 3, 40, 1)
        logits = [llama._decode(ids.tolist(), 0).clone(), llama._decode(following.tolist(), 20).clone()]
        for ours, theirs in zip(expected, logits, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.2)
        written = llama.generate(ids, 10)
        assert [len(row) for row in written] == [10] * 3
        assert len({token for row in written for token in row}) > 5
        llama.close()
    (file,) = tmp_path.iterdir()
    assert file.suffix == ".gguf"


def test_a_model_of_another_family_is_refused_for_llama_cpp(tiny_folder: Any) -> None:
    pytest.importorskip("llama_cpp")
    model = plain(BenchmarkConfig(str(tiny_folder("qwen2"))))
    with pytest.raises(Missing, match="llama family only, not qwen2"):
        Llama(model, 1, 20, 1)
