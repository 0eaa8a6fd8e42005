"""The warm start: a real fit of a tiny model on what the real verifier accepts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch

from redqueen.config import Config, GameConfig, ModelConfig, SamplingConfig
from redqueen.engine.adapters import save_adapter
from redqueen.engine.model.base import Base
from redqueen.method.verifier import LocalVerifier
from redqueen.method.warm_start import MAX_PAIRS, Warmup, varied
from redqueen.records import Draft, Kind, Task
from redqueen.tasks.python import DEDUCTION, reserved, seeds
from tests import toy
from tests.reference import same

Reports = list[tuple[str, int, int]]


@pytest.fixture
def reports() -> Reports:
    return []


@pytest.fixture
def warm(
    new_base: Callable[..., Base],
    tiny_folder: Callable[[str], Path],
    verifier: LocalVerifier,
    reports: Reports,
    tmp_path: Path,
) -> Iterator[Warmup]:
    # Sixty seeds and a reserved program, as a user's own file.
    own = tmp_path / "seeds.txt"
    drafts = [*seeds()[:60], reserved()[0]]
    blocks = [f"# {draft.message}\n{draft.program}\n{calls(draft)}" for draft in drafts]
    own.write_text("\n\n".join(blocks), encoding="utf-8")
    config = Config(
        model=ModelConfig(name=str(tiny_folder("llama")), dtype="float32", rank=8, workers=1, threads=1),
        game=GameConfig(references=1, seeds=str(own)),
        sampling=SamplingConfig(proposal_tokens=1, attempt_tokens=1),
    )
    base = new_base("llama")
    with closing(Warmup(base, verifier, config, 2e-2, lambda *report: reports.append(report))) as made:
        yield made


def calls(draft: Draft) -> str:
    return "\n".join(f"f({given})" for given in draft.inputs)


def test_it_learns_from_the_users_seeds_and_never_from_a_reserved_program(warm: Warmup) -> None:
    assert [task.program for task in warm.seed_tasks] == [draft.program for draft in seeds()[:60]]


def test_the_loss_falls_and_the_adapter_moves(warm: Warmup, reports: Reports) -> None:
    before = warm.adapter()
    warm.fit(0, 12, 2)
    losses = [float(what.removeprefix("round 0: loss ")) for what, _, _ in reports]
    assert [(done, total) for _, done, total in reports] == [(n, 12) for n in range(1, 13)]
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])
    after = warm.adapter()
    assert before.keys() == after.keys()
    assert not any(torch.equal(before[site].b, after[site].b) for site in before)


def test_a_fit_is_kept_after_every_tenth_step(warm: Warmup, reports: Reports) -> None:
    kept: list[int] = []
    warm.fit(0, 21, 1, lambda: kept.append(reports[-1][1]))
    assert kept == [10, 20]


def test_half_of_the_answers_are_learnt_alone_where_that_is_asked_for(warm: Warmup) -> None:
    texts = [warm._lesson(random.Random(1))]
    warm.answers_alone = True
    texts.append(warm._lesson(random.Random(1)))
    shorter = [len(alone.token_ids) < len(learnt.token_ids) for learnt, alone in zip(*texts, strict=True)]
    # A proposal, two answers with their inputs, two alone; two functions, of which the question is never learnt.
    assert shorter == [False, False, False, True, True, False, False]
    assert [[*sample.prompt_ids, *sample.token_ids] for sample in texts[0]] == [
        [*sample.prompt_ids, *sample.token_ids] for sample in texts[1]
    ]


def test_exploring_keeps_what_is_valid_and_new(warm: Warmup, reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    # Half of these proposals are valid, and all have one program; for code_f one input is too few.
    warm.prompts = toy.ToyPrompts()
    # Proposals are sampled and cut off at the first byte, and none of them counts as a proposal.
    assert warm.explore(0, 4) == {"malformed": 12}
    assert not any(warm.new_tasks.values())
    monkeypatch.setattr(warm.policy, "sample", toy.OneByte(warm.policy.sampler).sample)
    statuses = warm.explore(0, 12)
    assert sum(statuses.values()) == 3 * 12
    assert statuses["malformed"] > 0
    assert statuses["valid"] > 2
    assert {kind: len(tasks) for kind, tasks in warm.new_tasks.items()} == {"code_o": 1, "code_i": 1, "code_f": 0}
    (task,) = warm.new_tasks["code_o"]
    assert (task.program, task.pairs[0].output) == ("def f(x):\n    return 1", "1")
    warm.explore(1, 12)
    assert [len(tasks) for tasks in warm.new_tasks.values()] == [1, 1, 0]
    assert ("round 0: sampling code_o", 12, 12) in reports


def test_the_tasks_that_it_found_are_learnt_from(warm: Warmup) -> None:
    seeds = warm.seed_tasks
    warm.new_tasks["code_o"] = [DEDUCTION.of_program(seeds[0])]
    drawn = {warm._task("code_o", random.Random(n)).id for n in range(40)}
    assert f"{seeds[0].id}-code_o" in drawn
    assert len(drawn) > 5


@pytest.mark.parametrize("kind", ["code_o", "code_i", "code_f"])
def test_a_seed_task_becomes_one_of_each_kind(kind: Kind, seed_tasks: dict[Kind, list[Task]]) -> None:
    for whole in seed_tasks["code_f"][:5]:
        task = varied(whole, kind, random.Random(1))
        assert task.kind == kind
        assert set(task.pairs) <= set(whole.pairs)
        assert len(task.pairs) == (min(len(whole.pairs), MAX_PAIRS) if kind == "code_f" else 1)


def test_an_entropy_bonus_is_for_the_run_and_not_for_texts_to_imitate(
    warm: Warmup, new_base: Callable[..., Base], verifier: LocalVerifier
) -> None:
    config = warm.config.override(["learning.entropy_bonus=1"])
    with closing(Warmup(new_base("llama"), verifier, config, 2e-2, lambda *_: None)) as second:
        for one in (warm, second):
            one.fit(0, 1, 1)
        assert same(warm.adapter(), second.adapter())


def test_it_goes_on_from_the_adapter_that_is_named(
    warm: Warmup, new_base: Callable[..., Base], verifier: LocalVerifier, tmp_path: Path
) -> None:
    warm.fit(0, 1, 1)
    save_adapter(tmp_path / "first", warm.adapter(), alpha=warm.config.model.alpha, base="tiny", dtype=torch.float32)
    config = warm.config.override([f"population.init={tmp_path / 'first'}"])
    with closing(Warmup(new_base("llama"), verifier, config, 2e-2, lambda *_: None)) as second:
        first = warm.adapter()
        assert all(torch.equal(factors.b, first[site].b) for site, factors in second.adapter().items())


def test_work_is_learnt_with_further_answers_about_other_programs(
    warm: Warmup, new_base: Callable[..., Base], verifier: LocalVerifier
) -> None:
    config = warm.config.override(["model.prompts=work", "sampling.attempt_tokens=400"])
    with closing(Warmup(new_base("llama"), verifier, config, 2e-2, lambda *_: None, more_answers=8)) as working:
        samples = working._lesson(random.Random(1))
        decode = working.lessons.tokenizer.decode
        texts = [decode([*sample.prompt_ids, *sample.token_ids]) for sample in samples]
        # A proposal, four answers, twice four more, and two functions.
        assert len(samples) == 1 + 4 + 8 + 2
        worked = [text for text in texts[1:13] if "return" in text.partition("assert")[2]]
        assert len(worked) > 6
        # Of the further answers nothing but the work and the answer is learnt.
        assert all("def f" not in decode(sample.token_ids) for sample in samples[5:13])
        config = config.override(["sampling.attempt_tokens=1"])
    with closing(Warmup(new_base("llama"), verifier, config, 2e-2, lambda *_: None, more_answers=8)) as short:
        samples = short._lesson(random.Random(1))
        texts = [decode([*sample.prompt_ids, *sample.token_ids]) for sample in samples]
        assert not any("return" in text.partition("assert")[2] for text in texts[1:13]), "no attempt has room for work"
