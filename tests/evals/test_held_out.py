"""Held-out scores: the same tasks for all members and for the whole run, judged by the real verifier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.config import Config, ConfigError
from redqueen.evals.held_out import HeldOutEvaluation, check_held_out, run_evaluation
from redqueen.method.rewards import scores
from redqueen.method.seeds import is_reserved
from redqueen.method.self_play import SelfPlay
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Completion, Request, Verdict
from redqueen.tasks.python import NAMES, reserved
from tests import toy


class Book:
    """A sampler that knows the right answers: `good` members write them, the others write nonsense."""

    def __init__(self, good: set[str]) -> None:
        self.good = good
        self.answers: dict[str, str] = {}
        self.asked: list[Request] = []

    def sample(self, requests, on_completion=None) -> list[Completion]:
        self.asked = list(requests)
        texts = [self.answers[r.prompt.text] if r.member in self.good else "no idea" for r in requests]
        completions = [
            Completion(
                member=request.member,
                version=1,
                prompt_ids=(),
                token_ids=(),
                logprobs=(),
                text=text,
                finish_reason="stop",
            )
            for request, text in zip(requests, texts, strict=True)
        ]
        for index, completion in enumerate(completions):
            on_completion(index, completion)
        return completions


def probe(book: Book, verifier: LocalVerifier, **changes: object) -> HeldOutEvaluation:
    config = Config().override([f"{k}={v}" for k, v in changes.items()])
    play = SelfPlay(config.play_settings, book, verifier)
    made = run_evaluation(play, "selection", config.game.kinds, 9)
    for task in made.tasks:
        prompt = play.prompts.attempt(task, made.examples[task.kind])
        book.answers[prompt.text] = play.prompts.write_attempt(task)
    return made


def check(config: Config) -> None:
    check_held_out(config.game, config.league)


def test_who_knows_the_answers_scores_one_and_who_does_not_scores_zero(verifier: LocalVerifier) -> None:
    book = Book({"S0"})
    attempted = probe(book, verifier).attempt(["S0", "S1"])
    assert [attempt.rollout.member for attempt in attempted] == ["S0"] * 9 + ["S1"] * 9
    assert scores(attempted) == {"S0": 1.0, "S1": 0.0}
    # An attempt that the machine lost is no score.
    assert scores([replace(a, verdict=Verdict("infra_error")) for a in attempted if a.rollout.member == "S0"]) == {}


def test_everyone_gets_the_same_prompts_and_numbers_side_by_side(verifier: LocalVerifier) -> None:
    book = Book(set())
    made = probe(book, verifier)
    attempted = made.attempt(["S0", "S1"])
    assert [attempt.task for attempt in attempted] == [*made.tasks, *made.tasks]
    first, second = book.asked[::2], book.asked[1::2]
    assert [(r.prompt, r.seed) for r in first] == [(r.prompt, r.seed) for r in second]
    assert ({r.member for r in first}, {r.member for r in second}) == ({"S0"}, {"S1"})


def test_the_tasks_are_the_runs_own_and_do_not_change(verifier: LocalVerifier) -> None:
    one, again = (probe(Book(set()), verifier).tasks for _ in range(2))
    assert one == again
    assert probe(Book(set()), verifier, **{"run.seed": 1}).tasks != one


def test_worked_examples_are_not_reserved(verifier: LocalVerifier) -> None:
    made = probe(Book(set()), verifier, **{"game.shots": 2})
    assert [len(shown) for shown in made.examples.values()] == [2, 2, 2]
    assert all(is_reserved(task.program) for task in made.tasks)
    assert not any(is_reserved(task.program) for shown in made.examples.values() for task in shown)


def test_more_tasks_than_there_are_is_refused_where_they_are_used() -> None:
    most = 3 * len(reserved("selection"))
    config = Config().override([f"league.held_out_tasks={most + 1}"])
    check(config)
    with pytest.raises(ConfigError, match=rf"league\.held_out_tasks={most + 1}: there are {most} held-out tasks"):
        check(config.override(["league.student_fitness=held_out"]))
    check(config.override(["league.student_fitness=held_out", f"league.held_out_tasks={most}"]))


def test_the_default_number_of_tasks_fits() -> None:
    config = Config().override(["league.student_fitness=held_out"])
    check(config)
    assert config.league.held_out_tasks % len(NAMES) == 0


def test_real_members_are_scored_the_same_twice_and_equal_members_alike(
    tmp_path: Path, verifier: LocalVerifier
) -> None:
    changes = {"population.perturbation": 0, "league.held_out_tasks": 4, "sampling.attempt_tokens": 2}
    trainer = toy.trainer(toy.config(tmp_path, **changes), tmp_path / "run", verifier)
    before = len(trainer.self_play.task_bank)
    both = scores(trainer.held_out.attempt(["S0", "S1"]))
    assert both["S0"] == both["S1"]
    assert scores(trainer.held_out.attempt(["S1"])) == {"S1": both["S1"]}
    assert len(trainer.self_play.task_bank) == before
    trainer.close()
