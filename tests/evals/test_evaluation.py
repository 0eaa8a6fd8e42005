"""`redqueen eval`'s counts: what is solved, what was judged, and what a population's mean says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from redqueen.adapters.initialisation import fresh, generator, perturb
from redqueen.config import Config, ModelConfig
from redqueen.errors import AdapterError, UserError
from redqueen.evals.evaluation import Score, all_tasks, answer_tokens, evaluate, population_mean, score_of
from redqueen.evals.targets import Entrant
from redqueen.game.reserved import reserved
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.base import Base, load
from redqueen.records import Attempted, Completion, Kind, Pair, Rollout, Status, Task, Verdict
from redqueen.verifier import LocalVerifier

BARE = Entrant(target="base", member="", adapter=None, alpha=16.0, fingerprint=None)


def attempt(kind: Kind, status: Status) -> Attempted:
    task = Task(id="t", kind=kind, author="seed", step=0, program="", pairs=(Pair("1", "1"),))
    completion = Completion(
        member="0", version=1, prompt_ids=(), token_ids=(), logprobs=(), text="", finish_reason="stop"
    )
    rollout = Rollout(member="0", kind=kind, role="student", group="t", completion=completion)
    return Attempted(task=task, number=0, rollout=rollout, verdict=Verdict(status))


def test_solved_and_judged_are_counted_by_kind_and_lost_attempts_are_not() -> None:
    statuses: list[tuple[Kind, Status]] = [
        ("code_o", "correct"),
        ("code_o", "wrong"),
        ("code_i", "malformed"),
        ("code_i", "infra_error"),
        ("code_f", "correct"),
    ]
    score = score_of(BARE, [attempt(kind, status) for kind, status in statuses])
    assert score.solved == {"code_o": 1, "code_i": 0, "code_f": 1}
    assert score.judged == {"code_o": 2, "code_i": 1, "code_f": 1}
    assert score.rate is not None
    assert (score.rate.mean, score.rate.n) == (0.5, 4)


def test_the_mean_of_a_population_is_over_its_members() -> None:
    judged: dict[Kind, int] = {"code_o": 10, "code_i": 0, "code_f": 0}
    scores = [Score(target="r", member=f"S{n}", solved={**judged, "code_o": n}, judged=judged) for n in (2, 4)]
    mean = population_mean(scores)
    assert mean is not None
    assert (mean.mean, mean.n) == (pytest.approx(0.3), 2)
    assert population_mean([]) is None


def test_there_is_room_for_every_reserved_program_and_for_a_runs_own_limit() -> None:
    assert all_tasks() == 3 * len(reserved("report"))
    assert answer_tokens(Config()) == 128
    assert answer_tokens(Config().override(["sampling.attempt_tokens=2048"])) == 2048


@pytest.fixture(scope="module")
def config(tiny_folder: Callable[[str], Path]) -> Config:
    model = ModelConfig(name=str(tiny_folder("llama")), dtype="float32", device="cpu", workers=1, threads=1, rank=2)
    return Config(model=model)


@pytest.fixture(scope="module")
def base(config: Config) -> Base:
    return load(config.model)


def entrant(base: Base, config: Config, rank: int, alpha: float, seed: int = 0) -> Entrant:
    shapes = AdapterBank(base.decoder.sites, 1, rank, alpha, config.model.targets).shapes()
    adapter = perturb(fresh(shapes, rank, generator(seed, "a")), 0.5, generator(seed, "b"))
    return Entrant(target=f"rank {rank}", member="", adapter=adapter, alpha=alpha, fingerprint=None)


@pytest.mark.integration
def test_adapters_of_different_ranks_and_the_bare_base_are_evaluated_together(
    base: Base, config: Config, verifier: LocalVerifier
) -> None:
    entrants = [entrant(base, config, 2, 4.0), entrant(base, config, 4, 64.0), BARE]
    done: list[tuple[int, int]] = []
    scores = evaluate(base, config, entrants, verifier, 3, lambda *progress: done.append(progress))
    assert [score.target for score in scores] == ["rank 2", "rank 4", "base"]
    assert all(score.judged == {"code_o": 1, "code_i": 1, "code_f": 1} for score in scores)
    assert done[-1] == (9, 9)


def test_other_weights_and_other_adapters_are_refused(base: Base, config: Config, verifier: LocalVerifier) -> None:
    elsewhere = Entrant(target="runs/x", member="S0", adapter=None, alpha=16.0, fingerprint="0" * 64)
    with pytest.raises(UserError, match="runs/x was made on other weights than"):
        evaluate(base, config, [elsewhere], verifier, 3, lambda *_: None)
    whole = entrant(base, config, 2, 4.0)
    assert whole.adapter is not None
    part = dict(list(whole.adapter.items())[:2])
    other = Entrant(target="folder", member="", adapter=part, alpha=4.0, fingerprint=None)
    with pytest.raises(AdapterError, match="folder was made for another base"):
        evaluate(base, config, [other], verifier, 3, lambda *_: None)
