"""Students alone: a run without teachers, whose tasks are fixed."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from redqueen.analysis.replay import find_member
from redqueen.config import Config, ConfigError
from redqueen.config.recipes import configure
from redqueen.errors import UserError
from redqueen.method.planting import plant_tasks
from redqueen.method.seeds import SeedError
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Pair, Task
from redqueen.run.recording.terminal import headline
from redqueen.run.trainer import Trainer
from redqueen.store import checkpoint
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import AttemptRow, TaskRow
from redqueen.store.dataset.files import fixed_tasks
from redqueen.store.directory import RunDirectory, RunError
from redqueen.store.metrics import StepMetrics
from tests import toy
from tests.cli.running import redqueen
from tests.run.test_train import play, without_time

ALONE = {"population.teachers": 0, "population.students": 2}
ONE = Task(
    id="one", kind="code_o", author="T3", step=7, program="def f(x):\n    return 1", pairs=(Pair("5", "1"),), message=""
)


def unbegun(folder: Path, verifier: LocalVerifier, **changes: object) -> Trainer:
    """A trainer of two students alone, in a new run, without members and tasks yet."""
    config = toy.config(folder, **{**ALONE, **changes})
    RunDirectory(folder / "run").create(config, {})
    return toy.trainer(config, folder / "run", verifier, begin=False)


@pytest.mark.integration
def test_a_student_alone_learns_fixed_tasks(tmp_path: Path, verifier: LocalVerifier) -> None:
    trainer = unbegun(tmp_path, verifier, **{"run.steps": 12})
    programs = [f"def f(x):\n    x = x + {number}\n    return 1" for number in range(20)]
    tasks = [Task(id="", kind="code_o", author="", step=0, program=text, pairs=ONE.pairs) for text in programs]
    assert trainer.begin(tasks).left_out == 0
    lines = play(trainer)
    assert fmean(line["solve_rate"] for line in lines[-3:]) > fmean(line["solve_rate"] for line in lines[:2]) + 0.3
    line = lines[-1]
    assert (line["valid_rate"], line["statuses"]["proposals"], line["teacher_reward"]) == (None, {}, None)
    assert line["tasks_by_kind"] == {"code_o": 24}
    assert line["dropped"] == 0
    assert line["matches"] == []
    assert line["outcomes"] == {"student": 0, "draw": 0, "teacher": 0}
    with ArchiveReader(trainer.directory.archive) as archive:
        posed = [row.program for row in archive.every(TaskRow, 1) if row.id.startswith("1.0.")]
        again = [row.program for row in archive.every(TaskRow, 2) if row.id.startswith("2.0.")]
        attempts = archive.every(AttemptRow)
    # 12 tasks a step, of 20: the other eight come before one is posed again.
    assert len(set(posed)) == 12
    assert {*posed, *again[:8]} == set(programs)
    assert len(attempts) == 12 * 2 * 12 * 4
    assert all(row.reward is not None for row in attempts)


@pytest.mark.integration
def test_the_best_teacher_of_students_alone_is_refused(tmp_path: Path, verifier: LocalVerifier) -> None:
    trainer = unbegun(tmp_path, verifier, **{"run.steps": 1, "run.checkpoint_every": 1})
    trainer.begin([ONE])
    play(trainer)
    settings = trainer.config.evolution_settings
    assert find_member(trainer.directory, settings, "best-student", None).member.name in ("S0", "S1")
    with pytest.raises(RunError, match=r"has no teachers: choose one of S0, S1, best-student$"):
        find_member(trainer.directory, settings, "best-teacher", None)


@pytest.mark.slow
@pytest.mark.integration
def test_a_resumed_run_of_students_alone_repeats_the_whole_one(tmp_path: Path, verifier: LocalVerifier) -> None:
    config = toy.config(tmp_path, **{**ALONE, "run.steps": 4, "run.checkpoint_every": 1})
    whole = play(toy.trainer(config, tmp_path / "whole", verifier))
    play(toy.trainer(config, tmp_path / "part", verifier), steps=2)
    rest = toy.trainer(config, tmp_path / "part", verifier, begin=False)
    rest.restore(checkpoint.load(rest.directory.checkpoints, 2))
    assert without_time(play(rest)) == without_time(whole)


def test_tasks_that_are_not_what_they_say_are_left_out(tmp_path: Path, verifier: LocalVerifier) -> None:
    trainer = unbegun(tmp_path, verifier)
    other_output = Task(id="", kind="code_o", author="", step=0, program=ONE.program, pairs=(Pair("5", "2"),))
    invalid = Task(id="", kind="code_o", author="", step=0, program="def f(x):\n    return x / 0", pairs=ONE.pairs)
    other_kind = Task(id="", kind="code_i", author="", step=0, program=ONE.program, pairs=ONE.pairs)
    play = trainer.self_play
    assert plant_tasks(play, [ONE, other_output, invalid, other_kind, ONE]).left_out == 4
    assert [entry.task.pairs for entry in play.task_bank.entries()] == [ONE.pairs]
    play.task_bank.restore([])
    with pytest.raises(SeedError, match="has no valid task of the kind code_o"):
        plant_tasks(play, [invalid])
    trainer.close()


def test_fixed_tasks_that_the_bank_cannot_hold_are_refused(tmp_path: Path, verifier: LocalVerifier) -> None:
    trainer = unbegun(tmp_path, verifier, **{"game.bank_size": 16})
    programs = [f"def f(x):\n    x = x + {number}\n    return 1" for number in range(17)]
    tasks = [Task(id="", kind="code_o", author="", step=0, program=text, pairs=ONE.pairs) for text in programs]
    with pytest.raises(SeedError, match=r"has more than game\.bank_size=16 tasks of a kind"):
        plant_tasks(trainer.self_play, tasks)
    trainer.close()


@pytest.mark.integration
def test_the_tasks_of_a_run_and_its_exported_file_are_the_same(tmp_path: Path, verifier: LocalVerifier) -> None:
    run = toy.played(tmp_path, verifier, **{"run.steps": 2})
    file = tmp_path / "tasks.jsonl"
    assert redqueen("tasks", "export", str(run.path), "--out", str(file)).returncode == 0
    of_run = [(task.kind, task.program, task.pairs) for task in fixed_tasks(run.path)]
    assert [(task.kind, task.program, task.pairs) for task in fixed_tasks(file)] == of_run
    file.write_text('{"kind": "code_o", "program": "x"}\n')
    with pytest.raises(UserError, match="row 1 is no task of redqueen tasks export"):
        fixed_tasks(file)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["game.own_share=0.9"], "own_share=0.9 makes 3 of proposals=3 fixed tasks"),
        (["game.own_share=0.01"], "own_share=0.01 makes 0 of"),
        (["population.teachers=0"], "students alone have no opponents and no rating"),
        (["population.teachers=0", "evolution.enabled=false", "league.hall_of_fame=1"], "no champions"),
        (["rlvr", "matched=total"], "these are students alone"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        configure(settings)


def test_students_alone_may_evolve_by_another_fitness() -> None:
    config = Config().override(["population.teachers=0", "league.student_fitness=mean_reward"])
    assert config.evolution.enabled


def test_a_step_of_students_alone_shows_no_proposals_and_no_games() -> None:
    line: StepMetrics = {
        "step": 3,
        "seconds": {"total": 12.0},
        "valid_rate": None,
        "statuses": {"proposals": {}, "attempts": {"correct": 3}},
        "solve_rate": 0.5,
        "solve_rate_by_kind": {"code_o": 0.25, "code_i": 0.75},
        "contested_by_kind": {"code_o": 4, "code_i": 5},
        "outcomes": {"student": 0, "draw": 0, "teacher": 0},
        "replacements": [],
    }
    assert headline(line) == "step 3  12s  solved in sample 50% (o:25% i:75%)  contested 4/5"
