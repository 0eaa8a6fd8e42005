"""The evaluation while a run goes on: it is logged, and it changes nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from redqueen.base.intervals import interval
from redqueen.config import Config
from redqueen.errors import UserError
from redqueen.evals.held_out import START, HeldOutAnswer, gain_over, judged
from redqueen.evals.in_training import TrainingEvaluation, checksum, load_held_out
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Completion, Request
from redqueen.store import checkpoint
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import EvaluationRow
from tests import toy

EVALUATED = {"evals.every": 2, "evals.limit": 3, "evals.max_tokens": 2}


@pytest.mark.integration
def test_students_are_evaluated_every_few_steps_and_the_run_is_the_same(
    tmp_path: Path, verifier: LocalVerifier
) -> None:
    changes = {"run.steps": 3, "evolution.enabled": True, "evolution.every": 1}
    evaluated = toy.played(tmp_path / "a", verifier, **changes, **EVALUATED)
    plain = toy.played(tmp_path / "b", verifier, **changes)
    lines = evaluated.metrics()
    # The last step has an evaluation too.
    assert ["held_out" in line for line in lines] == [False, True, True]
    students = [name for name, member in lines[1]["members"].items() if member["role"] == "student"]
    assert lines[1].get("evals") == {"reserved": dict.fromkeys(students, 0.0)}
    nothing = {"rate": 0.0, "gain": 0.0, "low": None, "high": None}
    scores = lines[1]["held_out"]
    assert toy.without(scores, "asked") == {"problems": 3, "start": 0.0, "students": dict.fromkeys(students, nothing)}
    assert scores["asked"] == lines[2]["held_out"]["asked"] != ""
    assert "evaluate" in lines[1]["seconds"]
    others = ("time", "seconds", "throughput", "evals", "held_out")
    assert [toy.without(line, *others) for line in lines] == [toy.without(line, *others) for line in plain.metrics()]
    with ArchiveReader(evaluated.archive) as archive:
        start = archive.every(EvaluationRow, 0)
        later = archive.every(EvaluationRow, 2)
    # A run of code_o poses the reserved programs as code_o.
    assert {row.member for row in start} == {START}
    assert len({row.problem for row in start}) == 3
    assert all(row.problem.endswith("code_o") for row in start)
    assert {row.member for row in later} == set(students)
    assert {row.problem for row in later} == {row.problem for row in start}


@pytest.mark.integration
def test_a_resumed_run_knows_what_the_start_answered(tmp_path: Path, verifier: LocalVerifier) -> None:
    config = toy.config(tmp_path, **{"run.steps": 2, "run.checkpoint_every": 1}, **EVALUATED)
    first = toy.trainer(config, tmp_path / "run", verifier)
    first.record(first.step(1))
    first.played = 1
    first.save()
    asked = first.start_answers
    first.close()
    rest = toy.trainer(config, tmp_path / "run", verifier, begin=False)
    rest.restore(checkpoint.load(rest.directory.checkpoints, 1))
    assert rest.start_answers == asked
    assert len(asked) == 3
    rest.run()
    rest.close()
    assert "held_out" in rest.directory.metrics()[-1]


class Nobody:
    """A sampler that nobody may ask."""

    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        raise AssertionError("nothing is sampled here")


def opened(config: Config, verifier: LocalVerifier) -> TrainingEvaluation:
    return TrainingEvaluation(config.evals, config.league, config.play_settings, Nobody(), verifier, "base")


@pytest.mark.slow
@pytest.mark.parametrize(("fitness", "tasks"), [("lcb", 140), ("held_out", 70)])
def test_the_half_that_students_are_selected_by_is_not_held_out(
    fitness: str, tasks: int, verifier: LocalVerifier
) -> None:
    settings = ["game.kinds=code_o", "evals.limit=999", f"league.student_fitness={fitness}"]
    evaluation = opened(Config().override(settings), verifier)
    (loaded,) = evaluation.loaded
    assert len(loaded.problems) == tasks
    evaluation.close()


def test_the_order_of_the_kinds_does_not_decide_what_is_asked(verifier: LocalVerifier) -> None:
    def asked(kinds: str, limit: int = 6) -> tuple[list[str], str]:
        config = Config().override([f"game.kinds={kinds}", f"evals.limit={limit}"])
        loaded = load_held_out(config.evals, config.league, config.play_settings, verifier)
        return [problem.id for problem in loaded[0].problems], checksum(loaded)

    assert asked("code_o,code_i") == asked("code_i,code_o")
    # Other problems are told apart, and fewer of the same too.
    assert len({asked("code_o,code_i")[1], asked("code_o")[1], asked("code_o,code_i", 5)[1]}) == 3


def test_answers_are_sampled_as_in_the_game(verifier: LocalVerifier) -> None:
    settings = [
        "game.kinds=code_o",
        "evals.limit=1",
        "sampling.temperature=0.7",
        "sampling.top_p=0.9",
        "sampling.top_k=20",
    ]
    config = Config().override(settings)
    evaluation = opened(config, verifier)
    benchmark = evaluation.loaded[0].benchmark
    assert evaluation.plan.sampling(benchmark) == config.sampling.params(benchmark.max_tokens)
    evaluation.close()


def answer(problem: str, status: str, member: str = "S0") -> HeldOutAnswer:
    return HeldOutAnswer(
        member=member, benchmark="reserved", problem=problem, text="", status=status, tokens=1, cut_off=False
    )


def test_a_gain_is_paired_and_leaves_out_what_the_machine_lost() -> None:
    start = judged([answer("a", "correct", START), answer("b", "wrong", START), answer("c", "infra_error", START)])
    member = judged([answer("a", "malformed"), answer("b", "correct"), answer("c", "correct"), answer("d", "correct")])
    found = gain_over(start[START], member["S0"])
    assert found is not None
    assert (found.mean, found.n) == (0, 2)


def test_problems_of_one_program_are_one_observation() -> None:
    names = [f"reserved-report-{program}-{kind}" for program in range(6) for kind in ("code_o", "code_i", "code_f")]
    start = judged([answer(name, "wrong", START) for name in names])[START]
    # Whoever solves one problem of a program solves all: 18 answers, but 6 programs.
    right = judged([answer(name, "correct" if int(name.split("-")[2]) % 3 == 0 else "wrong") for name in names])["S0"]
    found = gain_over(start, right)
    programs = interval([1, 0, 0, 1, 0, 0])
    assert found is not None
    assert programs is not None
    assert (found.mean, found.low, found.high) == pytest.approx((programs.mean, programs.low, programs.high))
    assert found.n == 18


@pytest.mark.integration
def test_an_unknown_benchmark_stops_the_run_before_it_begins(tmp_path: Path, verifier: LocalVerifier) -> None:
    with pytest.raises(UserError, match="there is no benchmark 'gsm'"):
        toy.played(tmp_path, verifier, **{"evals.every": 1, "evals.benchmarks": "gsm"})
