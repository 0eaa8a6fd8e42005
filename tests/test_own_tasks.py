"""The user's own tasks: posed beside teachers' tasks, by difficulty, and a part of them held out."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.evals.held_out import OWN, START, HeldOutAnswer
from redqueen.method.planting import LEAST, held_out_of, plant_seeds
from redqueen.method.practice import FLOOR, Practice, note_attempts, posed_per_kind, posed_tasks, weight
from redqueen.method.seeds import is_fixed
from redqueen.method.task_bank import Entry, TaskBank, likeness_of
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Pair, PosedTask, Task
from redqueen.run.recording.metrics.dynamics import held_out_lines, held_out_scores
from redqueen.run.trainer import Trainer
from redqueen.store import checkpoint
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import BANK, ProposalRow, TaskRow
from redqueen.store.directory import RunDirectory
from tests import toy
from tests.run.test_train import play, without_time

MIXED = {"game.own_share": 0.5, "game.pick": "difficulty", "run.checkpoint_every": 1, "game.proposals": 6}


def fixed(number: int) -> Task:
    program = f"def f(x):\n    return {' + '.join(['x'] * (number + 1))}"
    return Task(
        id=f"own-{number}", kind="code_o", author="own", step=0, program=program, pairs=(Pair("1", str(number + 1)),)
    )


def bank_of(count: int) -> TaskBank:
    bank = TaskBank(100)
    for number in range(count):
        bank.add(fixed(number), None)
    return bank


def seed_file(folder: Path, count: int = 24) -> Path:
    """A file of programs of which no two are similar."""
    file = folder / "mine.txt"
    file.write_text(
        "\n".join(f"# add it up\n{fixed(number).program}\nf(1)\nf(2)\nf(3)\nf(4)\n" for number in range(count))
    )
    return file


def test_a_fifth_is_held_out_at_least_ten_and_similar_programs_stay_together() -> None:
    programs = [(("python", f"shape {number // 2}"), f"program {number}") for number in range(100)]
    held_out = held_out_of(programs, 0.2)
    assert sum(likeness in held_out for likeness, _ in programs) == 20
    assert held_out == held_out_of(reversed(programs), 0.2)
    assert len(held_out_of(programs[:30:2], 0.2)) == 15 // 2
    assert sum(likeness in held_out_of(programs[:40], 0.2) for likeness, _ in programs) == LEAST
    assert held_out_of(programs, 0.0) == frozenset()
    assert held_out_of(programs[:1], 0.2) == frozenset()


def test_a_longer_file_holds_out_what_a_shorter_one_does() -> None:
    programs = [(("python", f"shape {number}"), f"program {number}") for number in range(400)]
    assert len(held_out_of(programs[:350], 0.2) & held_out_of(programs, 0.2)) > 60


def test_what_is_held_out_is_refused_from_teachers_too(tmp_path: Path, verifier: LocalVerifier) -> None:
    trainer = toy.trainer(toy.config(tmp_path, **{"run.steps": 1}), tmp_path / "run", verifier)
    # What the toy's teachers write, up to the constant.
    alike = replace(fixed(0), program="def f(number):\n    return 7")
    trainer.self_play.task_bank.hold_out([likeness_of(alike)])
    (line,) = play(trainer)
    assert line["statuses"]["proposals"]["forbidden"] > 0
    assert "valid" not in line["statuses"]["proposals"]
    assert line["statuses"]["attempts"] == {}


def test_nothing_that_is_held_out_is_planted_or_shown(tmp_path: Path, verifier: LocalVerifier) -> None:
    settings = {"game.seeds": seed_file(tmp_path), "game.seed_tasks": "none", "evals.every": 1}
    config = toy.config(tmp_path, **settings)
    RunDirectory(tmp_path / "run").create(config, {})
    trainer = toy.trainer(config, tmp_path / "run", verifier, begin=False)
    planted = plant_seeds(trainer.self_play, 0.2)
    assert (planted.programs, len(planted.held_out)) == (14, 10)
    bank = trainer.self_play.task_bank
    in_bank = {entry.task.program for entry in bank.entries()}
    assert len(in_bank) == 14
    assert not in_bank & {task.program for task in planted.held_out}
    assert not any(bank.add(replace(task, author="T0"), 0.5) for task in planted.held_out)
    assert not any(bank.is_novel(task) for task in planted.held_out)
    assert {entry.task.author for entry in bank.entries()} == {"own"}
    trainer.close()


def test_a_resumed_run_refuses_what_it_refused_before(tmp_path: Path, verifier: LocalVerifier) -> None:
    # `code_f` makes no task of the programs that have one input only.
    file = seed_file(tmp_path)
    lines = file.read_text().replace("f(2)\nf(3)\nf(4)\n", "", 12)
    file.write_text(lines)
    settings = {"game.seeds": file, "game.seed_tasks": "none", "game.kinds": "code_f", "game.min_inputs": 3}
    play_of = toy.trainer(toy.config(tmp_path, **settings), tmp_path / "run", verifier).self_play
    planted = plant_seeds(play_of, 0.5)
    # A checkpoint keeps the held-out tasks, and a resumed run holds out their likenesses.
    resumed = TaskBank(10)
    resumed.hold_out(map(likeness_of, planted.held_out))
    whole = [replace(fixed(number), kind="code_f") for number in range(24)]
    assert [resumed.is_held_out(task) for task in whole] == [play_of.task_bank.is_held_out(task) for task in whole]
    assert 0 < len(planted.held_out) < 12


def test_a_task_without_a_program_is_posed_and_never_shown() -> None:
    bank = TaskBank(10)
    for number in range(4):
        task = replace(fixed(number), kind="code_t", message=f"message {number}", pairs=(Pair("f(1)", "1"),) * 2)
        bank.add(task if number else replace(task, program=""), None)
    assert len(bank.fixed("code_t")) == 4
    shown = bank.references("code_t", 9, random.Random(0))
    assert sorted(task.message for task in shown) == ["message 1", "message 2", "message 3"]


def test_what_is_contested_is_wanted_more_and_what_rests_comes_back() -> None:
    def known(solved: float) -> Entry:
        return Entry(fixed(0), None, solved=solved, tried=8.0, posed=5)

    contested, solved, hopeless = (weight(known(count), 5, 10.0) for count in (4, 8, 0))
    assert contested == 1.0
    assert solved == pytest.approx(hopeless)
    assert FLOOR <= solved < 0.25
    resting = [weight(known(8), step, 10.0) for step in (5, 15, 25, 65)]
    assert resting == sorted(resting)
    assert resting[-1] > 0.9
    assert weight(Entry(fixed(0), None), 5, 10.0) == 1.0


def test_the_curriculum_poses_contested_tasks_more_often() -> None:
    game = toy.GameConfig(kinds=("code_o",), pick="difficulty")
    bank = bank_of(30)
    times = dict.fromkeys(range(30), 0)
    for step in range(1, 121):
        posed = posed_tasks(bank, game, step, [Practice(id=f"{step}.0", student="S0")], 5, seed=0)
        assert len({one.task.program for one in posed}) == 5
        results: list[tuple[PosedTask, list[bool]]] = []
        for one in posed:
            number = one.task.program.count("+")
            times[number] += 1
            # Ten are always solved, ten never, and ten every other time.
            results.append((one, [number < 10, number < 20] * 4))
        note_attempts(bank, results, step)
    solved, contested, hopeless = (sum(times[number] for number in range(at, at + 10)) for at in (0, 10, 20))
    assert contested > 1.5 * max(solved, hopeless)
    assert min(times.values()) > 0


def test_fixed_tasks_take_their_share_of_what_a_student_is_posed() -> None:
    config = toy.Config().override(["game.proposals=10", "game.own_share=0.3"])
    assert (config.game.teacher_proposals, posed_per_kind(config.game, config.population)) == (7, 3)
    # With more teachers than students a student plays several matches.
    assert posed_per_kind(config.game, config.population.model_copy(update={"teachers": 4})) == 6
    assert posed_per_kind(config.game, config.population.model_copy(update={"teachers": 0})) == 10


@pytest.mark.integration
def test_a_run_on_own_tasks_and_teachers_marks_both_and_resumes_to_the_bit(
    tmp_path: Path, verifier: LocalVerifier
) -> None:
    settings = {**MIXED, "game.seeds": seed_file(tmp_path), "game.seed_tasks": "none", "run.steps": 4}
    config = toy.config(tmp_path, **{**settings, "evals.every": 2, "evals.limit": 4})
    whole_run = toy.trainer(config, tmp_path / "whole", verifier)
    whole = play(whole_run)
    for line in whole:
        # Two students, three tasks each that are theirs; teachers' tasks count in games.
        assert line["tasks_by_kind"]["code_o"] >= 6
        assert len(line["matches"]) == 2
        assert line["solve_rate_own"] is not None
    assert [("held_out_own" in line) for line in whole] == [False, True, False, True]
    assert whole[-1]["held_out_own"]["problems"] == 4
    with ArchiveReader(whole_run.directory.archive) as archive:
        tasks = archive.every(TaskRow)
        authors = {row.id: row.author for row in tasks}
        own = [row for row in archive.every(ProposalRow) if row.teacher == BANK]
    assert len(own) == 4 * 2 * 3
    assert {authors[row.id] for row in own} == {"own"}
    assert all(row.reward is None for row in own)
    assert set(authors.values()) == {"own", "T0", "T1"}

    play(toy.trainer(config, tmp_path / "part", verifier), steps=2)
    rest = toy.trainer(config, tmp_path / "part", verifier, begin=False)
    saved = checkpoint.load(rest.directory.checkpoints, 2)
    assert any(entry.tried for entry in saved.bank)
    (tmp_path / "mine.txt").unlink()
    rest.restore(saved)
    assert rest.own_held_out == whole_run.own_held_out
    assert len(rest.own_held_out) == 10
    assert without_time(play(rest)) == without_time(whole)


@pytest.mark.integration
def test_a_fixed_task_stays_when_its_program_does_other_things(tmp_path: Path, verifier: LocalVerifier) -> None:
    trainer: Trainer = toy.trainer(toy.config(tmp_path, **MIXED), tmp_path / "run", verifier)
    bank = trainer.self_play.task_bank
    before = [entry.task for entry in bank.entries() if is_fixed(entry.task)]
    assert bank.remove(before[0].program) == 0
    assert [entry.task for entry in bank.entries() if is_fixed(entry.task)] == before
    trainer.close()


def answer(member: str, benchmark: str, number: int, right: bool) -> HeldOutAnswer:
    status = "correct" if right else "wrong"
    return HeldOutAnswer(
        member=member, benchmark=benchmark, problem=str(number), text="", status=status, tokens=1, cut_off=False
    )


def test_the_last_sentence_says_what_own_held_out_tasks_gained() -> None:
    answers = [answer("S0", name, number, right=number % 2 == 0) for name in ("reserved", OWN) for number in range(20)]
    start = [answer(START, name, number, right=number == 0) for name in ("reserved", OWN) for number in range(20)]
    own = held_out_scores(answers, start, own=True)
    others = held_out_scores(answers, start)
    assert own is not None
    assert others is not None
    assert own["problems"] == others["problems"] == 20
    line = {"members": {"S0": {"fitness": 1.0}}, "held_out": others, "held_out_own": own}
    said = held_out_lines([line])
    assert said[-2] == "S0 solves 50 % of YOUR 20 held-out tasks, the start 5 %: +45 [21, 69]"
