"""A language from outside: one class, whose programs are judged without a sandbox, plays beside Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from redqueen import plugins
from redqueen.config import Config
from redqueen.evals.held_out import most_tasks, reserved_tasks
from redqueen.jail import Outcome, canonical, parse_arguments
from redqueen.method.planting import plant_seeds
from redqueen.method.prompt_lengths import prompt_lengths
from redqueen.method.prompts import prompts
from redqueen.method.seeds import SeedError, is_reserved
from redqueen.method.self_play import SelfPlay
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Completion, Draft, Request, Sampler, Task
from redqueen.store.tasks import proposals
from redqueen.tasks.kinds import Half, languages
from redqueen.tasks.kinds.abduction import Abduction
from redqueen.tasks.kinds.deduction import Deduction
from redqueen.tasks.kinds.induction import Induction
from redqueen.tasks.python import Python
from tests import toy
from tests.grading import grade

FOUR = ("1", "2", "3", "4")


class Sums(Python):
    """Sums of `x` and whole numbers, e.g. `x + 2 + x`. Values and calls are written as in Python."""

    name = "sums"
    prefix = "x"

    def fingerprint(self, program: str) -> str:
        return program.replace(" ", "")

    def shape(self, program: str) -> str:
        return "+".join("x" if term.strip() == "x" else "n" for term in program.split("+"))

    def tree(self, program: str) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None

    def called(self, program: str) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None

    def job(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        program: str,
        inputs: Sequence[str],
        *,
        validate: bool = False,
        expected: tuple[bytes, ...] | None = None,
        one_processor: bool = False,
    ) -> Outcome:
        outputs: list[int] = []
        try:
            for given in inputs:
                (x,) = parse_arguments(given)
                outputs.append(sum(x if term.strip() == "x" else int(term) for term in program.split("+")))
        except (TypeError, ValueError) as error:
            return Outcome(status="error", detail=str(error))
        right = expected is None or expected == tuple(map(canonical, outputs))
        return Outcome(status="ok" if right else "wrong", outputs=tuple(map(str, outputs)))

    def seeds(self, own: str | None = None) -> tuple[Draft, ...]:
        return (Draft("x + 1", FOUR, "one more"), Draft("x + x", FOUR, "twice"))

    def reserved(self, half: Half | None = None) -> tuple[Draft, ...]:
        return (Draft("x + x + x", FOUR, "three times"),)

    def is_reserved(self, program: str) -> bool:
        return self.shape(program) == "x+x+x"


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The names of the three kinds of the language, which a test registers and forgets at its end."""
    monkeypatch.setattr(plugins, "_parts", {})
    language = Sums()
    kinds = (Deduction("sum_o", language), Abduction("sum_i", language), Induction("sum_f", language))
    return tuple(plugins.kind(kind).name for kind in kinds)


def test_its_tasks_are_posed_and_judged(sums: tuple[str, ...], verifier: LocalVerifier) -> None:
    config = Config().override(["game.kinds=sum_o,sum_i,sum_f,code_o", "game.seed_tasks=2"])
    form = prompts("completion", config.game)
    tasks = reserved_tasks("report", sums, most_tasks("report", sums), 0, verifier)
    assert [task.kind for task in tasks] == list(sums)
    by_kind = {task.kind: task for task in tasks}
    assert form.attempt(by_kind["sum_f"], ()).prefix == "x"
    assert "three times" not in form.attempt(by_kind["sum_o"], ()).text
    for task in tasks:
        right = form.read_attempt(task.kind, form.write_attempt(task))
        wrong = "x + 1" if task.kind == "sum_f" else "77"
        assert [verdict.status for verdict in grade(verifier, [(task, right), (task, wrong)])] == ["correct", "wrong"]


def test_its_reserved_programs_are_refused_and_pythons_do_not_matter_to_it(sums: tuple[str, ...]) -> None:
    assert is_reserved("x + x + x", "sum_o")
    assert is_reserved("x + x + x")
    assert not is_reserved("x + x + x", "code_o")
    assert [language.name for language in languages((*sums, "code_f"))] == ["sums", "python"]


class Scripted:
    """A policy whose members write a valid proposal, or a number, whatever tokens they sample."""

    def __init__(self, policy: Sampler) -> None:
        self.policy = policy

    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        def written(index: int, completion: Completion) -> Completion:
            prompt = requests[index].prompt
            program = {"x": "x + 5", "def f(": "def f(x):\n    return 6"}.get(prompt.prefix)
            text = f"{program}\nf(1)" if program else " 6"
            return replace(completion, text=text, finish_reason="stop")

        def on_written(index: int, completion: Completion) -> None:
            if on_completion is not None:
                on_completion(index, written(index, completion))

        return [written(index, one) for index, one in enumerate(self.policy.sample(requests, on_written))]


@pytest.mark.integration
def test_a_run_plays_two_languages(tmp_path: Path, sums: tuple[str, ...], verifier: LocalVerifier) -> None:
    config = toy.config(tmp_path, **{"game.kinds": "sum_o,code_o", "game.seed_tasks": 2, "run.steps": 1})
    trainer = toy.trainer(config, tmp_path / "run", verifier)
    trainer.self_play.prompts = prompts("completion", config.game)
    trainer.self_play.sampler = Scripted(trainer.policy)
    trainer.run()
    trainer.close()
    tasks = [one.task for one in proposals(tmp_path / "run", None) if one.task is not None]
    assert {task.kind: (task.program, task.rho) for task in tasks} == {
        "sum_o": ("x + 5", 1.0),
        "code_o": ("def f(x):\n    return 6", 1.0),
    }
    assert len(tasks) == len(proposals(tmp_path / "run", None))


class Seedless(Deduction):
    """A kind that no seed program makes a task of."""

    def of_program(self, whole: Task, rng: object = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


def test_a_kind_without_seeds_begins_without_references(
    monkeypatch: pytest.MonkeyPatch, verifier: LocalVerifier
) -> None:
    monkeypatch.setattr(plugins, "_parts", {})
    plugins.kind(Seedless("code_x", Python()))
    config = Config().override(["game.kinds=code_x", "game.seed_tasks=2"])
    assert (
        prompt_lengths(config.play_settings, lambda prompt: len(prompt.text)).attempt == config.sampling.proposal_tokens
    )
    play = SelfPlay(config.play_settings, cast(Sampler, None), verifier)
    plant_seeds(play)
    assert len(play.task_bank) == 0
    alone = config.override(["population.teachers=0", "league.hall_of_fame=0", "evolution.enabled=false"])
    with pytest.raises(SeedError, match="the seed programs make no task of the kind code_x"):
        plant_seeds(SelfPlay(alone.play_settings, cast(Sampler, None), verifier), students_alone=True)
