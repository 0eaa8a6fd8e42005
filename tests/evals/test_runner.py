"""The runner: members side by side, each text graded, and after a kill only what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.config import Config, ModelConfig
from redqueen.engine.adapters import fresh, generator, perturb
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import Base, load
from redqueen.engine.policy import Policy, open_policy
from redqueen.errors import AdapterError, UserError
from redqueen.evals.benchmark import ProblemSet, answer_tokens
from redqueen.evals.grader import OpenGraders
from redqueen.evals.held_out import most_tasks
from redqueen.evals.registry import load_benchmarks
from redqueen.evals.runner import Plan, Player, Runner, evaluate
from redqueen.evals.samples import SampleRow, SampleStore
from redqueen.evals.targets import Entrant
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Completion, Request, Sampler
from redqueen.tasks.python import NAMES, reserved
from tests.evals import rows

BARE = Entrant(target="base", member="", adapter=None, alpha=16.0, fingerprint=None)


def plan(samples: int = 1, temperature: float = 0.0) -> Plan:
    return Plan(template="completion", samples=samples, temperature=temperature, max_tokens=6, base="tiny")


def test_there_is_room_for_every_reserved_program_and_for_a_runs_own_limit() -> None:
    assert most_tasks("report", NAMES) == 3 * len(reserved("report"))
    assert answer_tokens(Config().sampling) == 128
    assert answer_tokens(Config().override(["sampling.attempt_tokens=2048"]).sampling) == 2048


@pytest.fixture(scope="module")
def config(tiny_folder: Callable[[str], Path]) -> Config:
    model = ModelConfig(name=str(tiny_folder("llama")), dtype="float32", device="cpu", workers=1, threads=1, rank=2)
    return Config(model=model)


@pytest.fixture(scope="module")
def base(config: Config) -> Base:
    return load(config.model)


@pytest.fixture(scope="module")
def graders(verifier: LocalVerifier) -> Iterator[OpenGraders]:
    with OpenGraders(verifier) as shared:
        yield shared


@pytest.fixture(scope="module")
def benchmarks(config: Config, verifier: LocalVerifier, tmp_path_factory: pytest.TempPathFactory) -> list[ProblemSet]:
    """CRUXEval-O of three rows, which needs no process of its own, and six reserved tasks."""
    folder = tmp_path_factory.mktemp("data")
    rows.write(folder / "cruxeval.jsonl", rows.CRUXEVAL)
    return load_benchmarks(("cruxeval-o", "reserved"), config.play_settings, verifier, folder, 6)


def entrant(base: Base, config: Config, rank: int, alpha: float, seed: int = 0) -> Entrant:
    shapes = AdapterBank(base.decoder.sites, 1, rank, alpha, config.model.targets).shapes()
    adapter = perturb(fresh(shapes, rank, generator(seed, "a")), 0.5, generator(seed, "b"))
    return Entrant(target=f"rank {rank}", member="", adapter=adapter, alpha=alpha, fingerprint=None)


@pytest.fixture
def policy(base: Base, config: Config) -> Iterator[Policy]:
    with open_policy(base, config.engine_settings, 2) as opened:
        for name, seed in (("0", 1), ("1", 2)):
            made = entrant(base, config, config.model.rank, config.model.alpha, seed).adapter
            assert made is not None
            opened.join(name, made, trained=False)
        yield opened


PLAYERS = [Player(name="0", adapter="a", label="first"), Player(name="1", adapter="b", label="second")]


class KilledError(Exception):
    """Stands for the end of the process."""


class Counting:
    """Passes requests on, counts them, and can be killed after some completions."""

    def __init__(self, sampler: Sampler, kill_after: int | None = None) -> None:
        self.sampler = sampler
        self.kill_after = kill_after
        self.requests: list[Request] = []
        self.done = 0

    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        self.requests += requests

        def passed_on(index: int, completion: Completion) -> None:
            if self.done == self.kill_after:
                raise KilledError
            self.done += 1
            assert on_completion is not None
            on_completion(index, completion)

        return self.sampler.sample(requests, passed_on)


def answers(
    sampler: Sampler, loaded: ProblemSet, graders: OpenGraders, folder: Path | None, how: Plan
) -> list[list[SampleRow]]:
    with SampleStore(folder) as store:
        return Runner(how, sampler, graders, store).run(loaded, PLAYERS)


@pytest.mark.integration
@pytest.mark.parametrize("number", [0, 1])
def test_after_a_kill_only_the_missing_samples_are_made_and_the_result_is_the_same(
    number: int,
    policy: Policy,
    benchmarks: list[ProblemSet],
    graders: OpenGraders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = benchmarks[number]
    how = plan(samples=2, temperature=1.0)
    whole = answers(policy, loaded, graders, None, how)
    total = 2 * 2 * len(loaded.problems)
    # Two problems are a wave of 8 samples, and a kill loses the wave that it falls into.
    monkeypatch.setattr("redqueen.evals.runner.WAVE", 8)
    assert answers(policy, loaded, graders, None, how) == whole
    with pytest.raises(KilledError):
        answers(Counting(policy, kill_after=9), loaded, graders, tmp_path, how)
    resumed = Counting(policy)
    assert answers(resumed, loaded, graders, tmp_path, how) == whole
    assert len(resumed.requests) == total - 8
    again = Counting(policy)
    assert answers(again, loaded, graders, tmp_path, how) == whole
    assert again.requests == []
    # The samples of another setting are others.
    other = Counting(policy)
    answers(other, loaded, graders, tmp_path, plan())
    assert len(other.requests) == total / 2


@pytest.mark.integration
def test_a_stored_sample_of_another_task_is_not_used_again(
    policy: Policy, benchmarks: list[ProblemSet], graders: OpenGraders, tmp_path: Path
) -> None:
    loaded = benchmarks[1]
    answers(policy, loaded, graders, tmp_path, plan())
    # Another task has come under the name of the last one, which is no first prompt; only its outputs are others.
    *rest, last = loaded.problems
    task = last.data["task"]
    pairs = tuple(replace(pair, output="'other'") for pair in task.pairs)
    changed = replace(last, data={**last.data, "task": replace(task, pairs=pairs)})
    again = Counting(policy)
    answers(again, replace(loaded, problems=[*rest, changed]), graders, tmp_path, plan())
    assert len(again.requests) == len(PLAYERS)


@pytest.mark.integration
def test_a_stored_verdict_of_another_release_is_not_used_again(
    policy: Policy,
    benchmarks: list[ProblemSet],
    graders: OpenGraders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers(policy, benchmarks[0], graders, tmp_path, plan())
    monkeypatch.setattr("redqueen.evals.runner.__version__", "another")
    again = Counting(policy)
    answers(again, benchmarks[0], graders, tmp_path, plan())
    assert len(again.requests) == len(PLAYERS) * len(benchmarks[0].problems)


@pytest.mark.integration
def test_members_in_one_batch_answer_as_each_does_alone(
    policy: Policy, benchmarks: list[ProblemSet], graders: OpenGraders
) -> None:
    together = answers(policy, benchmarks[1], graders, None, plan())
    for player, rows_of in zip(PLAYERS, together, strict=True):
        with SampleStore(None) as store:
            assert Runner(plan(), policy, graders, store).run(benchmarks[1], [player]) == [rows_of]


@pytest.mark.integration
def test_adapters_of_different_ranks_and_the_bare_base_are_evaluated_together(
    base: Base, config: Config, benchmarks: list[ProblemSet], graders: OpenGraders
) -> None:
    entrants = [entrant(base, config, 2, 4.0), entrant(base, config, 4, 64.0), BARE]
    done: list[tuple[str, int, int]] = []
    with SampleStore(None) as store:
        results = evaluate(
            base,
            config.engine_settings,
            entrants,
            benchmarks,
            plan(),
            graders,
            store,
            lambda *report: done.append(report),
        )
    assert [entry.target for entry in results.entries] == ["rank 2", "rank 4", "base"]
    assert all(cell.samples == 6 for cell in results.cells["reserved"])
    assert results.cells["reserved"][0].parts == {"code_o": (0, 2), "code_i": (0, 2), "code_f": (0, 2)}
    assert done[-1] == ("reserved", 18, 18)


def test_other_weights_and_other_adapters_are_refused(
    base: Base, config: Config, benchmarks: list[ProblemSet], graders: OpenGraders
) -> None:
    def refused(one: Entrant) -> None:
        with SampleStore(None) as store:
            evaluate(base, config.engine_settings, [one], benchmarks, plan(), graders, store, lambda *_: None)

    with pytest.raises(UserError, match="runs/x was made on other weights than"):
        refused(Entrant(target="runs/x", member="S0", adapter=None, alpha=16.0, fingerprint="0" * 64))
    whole = entrant(base, config, 2, 4.0)
    assert whole.adapter is not None
    part = dict(list(whole.adapter.items())[:2])
    with pytest.raises(AdapterError, match="folder was made for another base"):
        refused(Entrant(target="folder", member="", adapter=part, alpha=4.0, fingerprint=None))
