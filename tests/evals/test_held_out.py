"""Held-out scores: the same tasks for all members and for the whole run, judged by the real verifier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.config import Config, ConfigError, LeagueConfig
from redqueen.evals.held_out import HeldOutEvaluation, scores
from redqueen.game.prompts import prompts
from redqueen.records import Completion, Kind, Request, Task, Verdict
from redqueen.verifier import LocalVerifier
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


def probe(book: Book, seeds: list[Task], verifier: LocalVerifier, **changes: object) -> HeldOutEvaluation:
    config = Config(league=LeagueConfig(held_out_tasks=9)).override([f"{k}={v}" for k, v in changes.items()])
    format = prompts(config.model.prompts, config.game)
    made = HeldOutEvaluation(config, seeds, format, book, verifier)
    for task in made.tasks:
        book.answers[format.attempt(task, made.examples[task.kind]).text] = format.write_attempt(task)
    return made


def test_who_knows_the_answers_scores_one_and_who_does_not_scores_zero(
    seed_tasks: dict[Kind, list[Task]], verifier: LocalVerifier
) -> None:
    book = Book({"S0"})
    attempted = probe(book, seed_tasks["code_f"], verifier).attempt(["S0", "S1"])
    assert scores(attempted) == {"S0": 1.0, "S1": 0.0}
    assert len(attempted) == 18
    # An attempt that the machine lost is no score.
    assert scores([replace(a, verdict=Verdict("infra_error")) for a in attempted if a.rollout.member == "S0"]) == {}


def test_the_kinds_take_turns_and_everyone_gets_the_same_prompts_and_numbers(
    seed_tasks: dict[Kind, list[Task]], verifier: LocalVerifier
) -> None:
    book = Book(set())
    made = probe(book, seed_tasks["code_f"], verifier)
    assert [t.kind for t in made.tasks] == ["code_o", "code_i", "code_f"] * 3
    assert len({t.program for t in made.tasks}) == 9
    made.attempt(["S0", "S1"])
    first, second = book.asked[:9], book.asked[9:]
    assert [(r.prompt, r.seed) for r in first] == [(r.prompt, r.seed) for r in second]
    assert {r.member for r in first} == {"S0"}


def test_the_tasks_are_the_runs_own_and_do_not_change(
    seed_tasks: dict[Kind, list[Task]], verifier: LocalVerifier
) -> None:
    whole = seed_tasks["code_f"]
    one, again = (probe(Book(set()), whole, verifier).tasks for _ in range(2))
    assert one == again
    assert probe(Book(set()), whole, verifier, **{"run.seed": 1}).tasks != one


def test_worked_examples_are_of_the_kind_and_never_asked_about(
    seed_tasks: dict[Kind, list[Task]], verifier: LocalVerifier
) -> None:
    made = probe(Book(set()), seed_tasks["code_f"], verifier, **{"game.shots": 2})
    asked = {t.program for t in made.tasks}
    for kind, shots in made.examples.items():
        assert [t.kind for t in shots] == [kind] * 2
        assert not {t.program for t in shots} & asked


def test_more_tasks_than_there_are_seeds_are_refused(
    seed_tasks: dict[Kind, list[Task]], verifier: LocalVerifier
) -> None:
    with pytest.raises(ConfigError, match=r"league\.held_out_tasks=9: there are 5 seed programs, choose at most that"):
        probe(Book(set()), seed_tasks["code_f"][:5], verifier)


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
