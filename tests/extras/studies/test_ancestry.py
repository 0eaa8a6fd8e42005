"""The ancestry study: the choice of epochs, the meaning of the verdicts, and the whole command on a toy run."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

import redqueen.extras.studies.ancestry as experiment
from redqueen.analysis.drawing import write
from redqueen.analysis.replay import Replay
from redqueen.extras.studies.ancestry import (
    Games,
    StudentEpoch,
    TaskEpoch,
    _rise,
    play,
    rates,
    spread,
    student_epochs,
    students,
    task_epochs,
    teachers,
    unsolved,
)
from redqueen.extras.studies.ancestry_command import available, draw
from redqueen.records import Pair, Task
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunDirectory, RunError
from tests.analysis.conftest import STEPS
from tests.cli.running import redqueen

pytestmark = pytest.mark.integration


def task(step: int, i: int, kind: str = "code_o") -> Task:
    return Task(
        id=f"{step}.{i}", kind=kind, author="T0", step=step, program="def f(x):\n    return 1", pairs=(Pair("1", "1"),)
    )  # type: ignore[arg-type]


def test_equal_solve_rates_rise_by_nothing_whatever_the_steps_are() -> None:
    # 10, 20 and 25 have no exact mean, and the rounding of each product used to be the same in every task.
    for steps in combinations(range(12), 3):
        for rate in (0.0, 0.1, 1.0):
            assert _rise(steps, [rate] * 3) == 0.0
    assert _rise((10, 20, 25), [0.0, 0.4, 0.6]) == pytest.approx(0.04)


def games(odds: Callable[[int, int], float], epochs: int = 5, tasks: int = 40, seed: int = 0) -> Games:
    """Returns games in which students after step i solve a task of step j with probability `odds(i, j)`.

    Each task has one draw, as with one attempt, which all student epochs share, as in the study.
    """
    rng = random.Random(seed)
    draws = [[rng.random() for _ in range(tasks)] for _ in range(epochs)]
    return Games(
        tuple(StudentEpoch(i, {}) for i in range(epochs + 1)),
        tuple(TaskEpoch(j + 1, j + 1, tuple(task(j + 1, t) for t in range(tasks)), tasks) for j in range(epochs)),
        tuple(tuple(tuple(float(u < odds(i, j)) for u in draws[j]) for j in range(epochs)) for i in range(epochs + 1)),
    )


def test_students_that_get_better_at_everything_make_progress() -> None:
    found = students(games(lambda i, j: 0.2 + 0.1 * i))
    assert found.verdict == "progress"
    assert found.change is not None
    assert found.change.mean == pytest.approx(0.5, abs=0.1)


def test_students_that_unlearn_late_collapse() -> None:
    found = students(games(lambda i, j: 0.2 if i == 5 else 0.3 + 0.1 * i))
    assert found.verdict == "collapse"
    assert found.fall is not None
    assert found.fall.mean == pytest.approx(-0.5, abs=0.1)
    assert students(games(lambda i, j: 0.8 - 0.1 * i)).verdict == "collapse"


def test_students_that_forget_the_past_for_the_present_cycle() -> None:
    # the students solve the tasks of their own time and no others
    found = students(games(lambda i, j: 0.9 if abs(i - 1 - j) < 1 or (i == 5 and j >= 3) else 0.2))
    assert found.verdict == "cycling"
    assert found.cycle is not None


def test_students_that_do_not_move_show_nothing() -> None:
    found = students(games(lambda i, j: 0.5))
    assert found.verdict == "nothing shown"
    assert students(games(lambda i, j: 0.5, epochs=5, tasks=1)).verdict == "nothing shown"


def test_noise_is_rarely_taken_for_a_change() -> None:
    rng = random.Random(1)
    words = [students(games(lambda i, j: 0.5 + rng.uniform(-0.1, 0.1), seed=s)).verdict for s in range(100)]
    words += [teachers(games(lambda i, j: 0.5, seed=s)).verdict for s in range(100)]
    assert words.count("nothing shown") >= 170


def test_teachers() -> None:
    assert teachers(games(lambda i, j: 0.9 - 0.15 * j)).verdict == "progress"
    found = teachers(games(lambda i, j: 0.1 + 0.15 * j, tasks=400))
    assert found.verdict == "collapse"
    assert found.change is not None
    assert found.change.mean == pytest.approx(-0.6, abs=0.1)
    cyclic = teachers(games(lambda i, j: (0.9 if i <= 2 else 0.1) if j == 4 else (0.1 if i <= 2 else 0.9)))
    assert cyclic.verdict == "cycling"


def test_too_few_epochs_are_reported() -> None:
    one = games(lambda i, j: 0.5, epochs=1)
    assert teachers(one).verdict == "too few epochs"
    assert students(Games(one.students[:1], one.tasks, one.solved[:1])).verdict == "too few epochs"


def test_attempts_lost_to_a_fault_of_the_machine_do_not_count() -> None:
    whole = games(lambda i, j: 0.2 + 0.1 * i)
    holes = tuple(tuple(tuple(None if t % 4 == 0 else v for t, v in enumerate(c)) for c in row) for row in whole.solved)
    found = students(Games(whole.students, whole.tasks, holes))
    assert found.verdict == "progress"
    assert found.change is not None
    assert found.change.n == 150
    none = tuple(tuple(tuple(None for _ in c) for c in row) for row in whole.solved)
    nothing = Games(whole.students, whole.tasks, none)
    assert rates(nothing) == [[None] * 5] * 6
    assert students(nothing).verdict == "too few epochs"


def test_rates_and_unsolved() -> None:
    found = games(lambda i, j: 1.0 if j == 0 else 0.0, tasks=3)
    assert rates(found)[2] == [1, 0, 0, 0, 0]
    assert unsolved(found) == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("steps", "most", "chosen"),
    [([0, 1, 2, 3, 4], 3, [0, 2, 4]), ([0, 5], 9, [0, 5]), ([3], 4, [3]), ([1, 2, 3], 1, [3])],
)
def test_epochs_are_spread(steps: list[int], most: int, chosen: list[int]) -> None:
    assert spread(steps, most) == chosen


def test_epochs_of_a_run(played: Path, tmp_path: Path) -> None:
    directory = RunDirectory(played)
    config = directory.config()
    assert [e.step for e in student_epochs(directory, config.evolution_settings, 10, 1)] == [0, 1, 2, 3, 4]
    past = student_epochs(directory, config.evolution_settings, 3, 2)
    assert [(e.step, len(e.adapters)) for e in past] == [(0, 2), (2, 2), (4, 2)]
    made = task_epochs(directory, config.game.kinds, config.run.seed, 2, 5)
    assert [(e.first, e.last) for e in made] == [(1, 2), (3, 4)]
    for epoch in made:
        assert len(epoch.tasks) == min(5, epoch.count)
        assert all(epoch.first <= t.step <= epoch.last for t in epoch.tasks)
    assert task_epochs(directory, config.game.kinds, config.run.seed, 2, 5) == made
    assert len(task_epochs(directory, config.game.kinds, config.run.seed, 99, 5)) <= STEPS
    (tmp_path / "config.json").write_bytes((played / "config.json").read_bytes())
    with pytest.raises(RunError, match="no archive"):
        task_epochs(RunDirectory(tmp_path), config.game.kinds, config.run.seed, 2, 5)
    Archive(tmp_path / "run.sqlite").close()
    with pytest.raises(RunError, match="no valid task"):
        task_epochs(RunDirectory(tmp_path), config.game.kinds, config.run.seed, 2, 5)
    with pytest.raises(RunError, match="no checkpoint"):
        student_epochs(RunDirectory(tmp_path), config.evolution_settings, 2, 1)


def test_every_student_epoch_plays_every_task_epoch_and_learning_is_seen(
    played: Path, toy_replay: Callable[..., Replay], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = RunDirectory(played)
    config = directory.config()
    past = student_epochs(directory, config.evolution_settings, 5, 3)
    made = task_epochs(directory, config.game.kinds, config.run.seed, 4, 8)
    said: list[tuple[int, int]] = []
    replay = toy_replay(experiment.SLOTS)
    found = play(replay, past, made, 8, lambda what, done, total: said.append((done, total)))
    assert said[-1] == (15 * len(made), 15 * len(made))
    assert replay.policy.members == ()
    matrix = rates(found)
    assert len(matrix) == 5
    first, last = (sum(v for v in matrix[i] if v is not None) / len(made) for i in (0, -1))
    assert last > first, "the toy run learns"
    # no member's result depends on the other members in the bank
    monkeypatch.setattr(experiment, "SLOTS", 2)
    assert play(toy_replay(2), past, made, 8, lambda what, done, total: None) == found


def test_the_figure(tmp_path: Path) -> None:
    figure = draw(games(lambda i, j: 0.2 + 0.1 * i), ("progress", "nothing shown"))
    heat = figure.axes[0]
    assert len(heat.texts) == 30
    assert figure.axes[1].get_title() == "students: progress"
    write(figure, tmp_path / "x.png")
    assert matplotlib.image.imread(tmp_path / "x.png").std() > 0.05


def test_the_command(played: Path, tmp_path: Path) -> None:
    asked = ("--epochs", "3", "--tasks", "2")
    done = redqueen("ancestry", str(played), *asked, "--json", "--figure", str(tmp_path / "a.png"))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert [s["step"] for s in found["students"]] == [0, 2, 4]
    assert len(found["solve_rates"]) == 3
    assert {len(row) for row in found["solve_rates"]} == {len(found["tasks"])}
    assert set(found["findings"]) == {"students", "teachers"}
    assert "students of 3 of 5 checkpoints: after step 0, 2, 4" in done.stderr
    assert (tmp_path / "a.png").stat().st_size > 10_000
    shown = redqueen("ancestry", str(played), *asked, "--students", "2", "--attempts", "2")
    assert shown.returncode == 0, shown.stderr
    assert "students: " in shown.stdout
    assert "teachers: " in shown.stdout


def test_a_run_that_kept_little_says_how_to_keep_more(played: Path, tmp_path: Path) -> None:
    config = RunDirectory(played).config()
    config = config.override(["run.keep_every=0"])
    run = RunDirectory(tmp_path)
    run.checkpoints.mkdir()
    for step in (3, 4):
        name = f"step-{step:06d}"
        shutil.copytree(played / "checkpoints" / name, run.checkpoints / name)
    past = student_epochs(run, config.evolution_settings, 10, 1)
    assert "students of 2 of 2 checkpoints: after step 3, 4. The run kept only" in available(config.run, run, past)
    assert "run.keep_every=1" in available(config.run, run, past)
    assert "keep_every" not in available(config.override(["run.keep_every=1"]).run, run, past)
