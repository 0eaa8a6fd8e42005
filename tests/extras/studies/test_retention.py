"""The retention study on a toy run: controls behave as they must, and no result depends on the other members."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

import redqueen.extras.studies.retention as experiment
from redqueen.analysis.drawing import write
from redqueen.analysis.replay import Replay, load_step, open_replay
from redqueen.engine.model.base import fingerprint
from redqueen.errors import UserError
from redqueen.extras.studies.retention import (
    RetentionPlan,
    RetentionTrial,
    operators_for,
    retention,
    slots_needed,
)
from redqueen.extras.studies.retention_command import answer, draw, run_retention, summarise
from redqueen.method.operators import CONTROLS, CROSSOVERS, MUTATIONS
from redqueen.records import Draft
from redqueen.store.allowed import NOTHING
from redqueen.store.checkpoint import Checkpoint, CheckpointError
from redqueen.store.directory import RunDirectory, RunError
from redqueen.tasks.kinds import find
from redqueen.tasks.programs.normal_form import shape
from redqueen.tasks.python import PYTHON, reserved
from tests import tiny
from tests.cli.running import redqueen

pytestmark = pytest.mark.integration

SMALL = RetentionPlan(seeds=2, updates=6, tasks=12, tries=4)
EVERYONE = {*MUTATIONS, *CROSSOVERS, *CONTROLS}


def silent(what: str, done: int, total: int) -> None:
    assert 0 <= done <= total


def run(replay: Replay, saved: Checkpoint, plan: RetentionPlan = SMALL) -> list[RetentionTrial]:
    return retention(replay, saved, plan, silent)


def by_name(trials: list[RetentionTrial], seed: int = 0) -> dict[str, RetentionTrial]:
    return {t.operator: t for t in trials if t.seed == seed}


@pytest.fixture
def easy_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reserved programs of the toy game: students that learn it get better at them."""
    drafts = tuple(Draft("def f(x):\n    return 1", (str(byte),)) for byte in range(0, 80, 2))
    monkeypatch.setattr(PYTHON, "reserved", lambda half: drafts)


def test_the_fixed_tasks_are_of_the_kinds_in_which_students_are_tested(
    toy_replay: Callable[..., Replay], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(find("code_o")), "held_out_as", "code_i")
    fixed, _ = experiment._tasks(toy_replay(2), SMALL, "study")
    assert {task.kind for task in fixed} == {"code_i"}


@pytest.mark.slow
@pytest.mark.usefixtures("easy_reserved")
def test_controls_and_curves(toy_replay: Callable[..., Replay], saved: Checkpoint) -> None:
    replay = toy_replay(slots_needed(saved))
    before = fingerprint(replay.policy.base.model)
    trials = run(replay, saved)
    assert fingerprint(replay.policy.base.model) == before
    assert replay.policy.members == ()
    assert replay.policy.learner.optimizers == {}
    assert len(trials) == 2 * len(EVERYONE)
    for seed in (0, 1):
        found = by_name(trials, seed)
        assert set(found) == EVERYONE
        copy = found["copy_parent"]
        assert (copy.kl, copy.distance, copy.regained) == (0, 0, 0)
        assert copy.rewards[0] == copy.level
        assert found["fresh"].distance == 1, "its update is zero"
        assert len({t.level for t in found.values()}) == 1
        for t in found.values():
            assert len(t.rewards) == len(SMALL.measured) == 4
            assert len(t.parents) == (2 if t.operator in (*CROSSOVERS, "linear_mean") else 1)
            assert t.kl > 0 or t.operator == "copy_parent"
            expected = [u for u, r in zip(SMALL.measured, t.rewards, strict=True) if r >= t.level]
            assert t.regained == (expected[0] if expected else None)
        # the game is easy, so that training makes every child better
        assert copy.rewards[-1] > copy.rewards[0] + 0.2
        assert found["full_gaussian"].solved[-1] > found["full_gaussian"].solved[0]
    one, two = by_name(trials, 0), by_name(trials, 1)
    assert one["svd_spectral"].kl != two["svd_spectral"].kl, "seeds differ"


@pytest.mark.slow
def test_no_result_depends_on_the_other_members_and_all_can_be_repeated(
    toy_replay: Callable[..., Replay], saved: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(SMALL, seeds=1, updates=3, every=1)
    together = by_name(run(toy_replay(slots_needed(saved)), saved, plan))
    assert by_name(run(toy_replay(slots_needed(saved)), saved, plan)) == together
    few = ("extrapolate", "neftune")
    monkeypatch.setattr(experiment, "operators_for", lambda students: few)
    alone = by_name(run(toy_replay(3), saved, plan))
    assert set(alone) == set(few)
    for name in few:
        assert alone[name].rewards == together[name].rewards
        assert alone[name].kl == pytest.approx(together[name].kl, rel=1e-4)


def test_tasks_to_learn_from_are_not_those_measured_on(toy_replay: Callable[..., Replay], saved: Checkpoint) -> None:
    replay = toy_replay(2)
    fixed, pool = experiment._tasks(replay, SMALL, "p")  # pyright: ignore[reportPrivateUsage]
    assert len(fixed) == 12
    assert {shape(t.program) for t in fixed}.isdisjoint(shape(t.program) for t in pool)
    assert {shape(t.program) for t in fixed} <= {shape(draft.program) for draft in reserved("report")}
    assert experiment._tasks(replay, SMALL, "q")[0] != fixed  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(UserError, match="--tasks 71: there are 70 reserved tasks, choose at most that"):
        run(toy_replay(slots_needed(saved)), saved, replace(SMALL, tasks=71))


def test_one_student_has_no_crossovers() -> None:
    assert set(operators_for(1)) == EVERYONE - set(CROSSOVERS) - {"linear_mean"}
    assert set(operators_for(2)) == EVERYONE


@pytest.mark.parametrize(("updates", "every", "measured"), [(6, 2, (0, 2, 4, 6)), (5, 2, (0, 2, 4, 5)), (1, 9, (0, 1))])
def test_when_reward_is_measured(updates: int, every: int, measured: tuple[int, ...]) -> None:
    assert replace(SMALL, updates=updates, every=every).measured == measured


def trial(operator: str, seed: int, late: float, regained: int | None = 4) -> RetentionTrial:
    return RetentionTrial(
        operator, ("S0",), seed, 0.5 + seed, 0.1, 1.0, 0.5, (0.0, 0.0, 0.0, 1 + late), (0, 0, 0, 0), regained
    )


def test_the_table_compares_within_a_seed() -> None:
    plan = replace(SMALL, updates=6, every=3)  # measured at 0, 3, 6: the second half is 6
    plan_trials = [
        replace(t, rewards=(t.rewards[0], t.rewards[1], t.rewards[3]))
        for seed, base in enumerate((0.0, 5.0, -3.0))
        for t in (
            trial("copy_parent", seed, base, 0),
            trial("dare", seed, base + 1 + 0.1 * seed, None if seed == 2 else 4),
            trial("neftune", seed, base - 1 + 0.1 * seed),
            trial("fresh", seed, base + (1, -1, 0.2)[seed]),
        )
    ]
    found = {s.operator: s for s in summarise(plan_trials, plan)}
    assert found["dare"].over_copy is not None
    assert found["dare"].over_copy.mean == pytest.approx(1.1)
    assert [found[n].beats_copy for n in ("copy_parent", "dare", "neftune", "fresh")] == ["-", "yes", "worse", "no"]
    assert found["dare"].beats_mean == "-", "there was no such control"
    assert found["dare"].regained == pytest.approx(2 / 3)
    assert found["dare"].updates == pytest.approx((4 + 4 + 6) / 3)
    assert found["dare"].kl == pytest.approx(1.5)
    assert found["dare"].kl_spread == pytest.approx(1.0)
    assert found["dare"].birth.mean == -1
    alone = summarise([t for t in plan_trials if t.seed == 0], plan)
    assert {s.beats_copy for s in alone} == {"-"}, "one seed shows nothing"
    assert answer(None) == "-"


def test_the_figure_has_a_panel_for_each_operator(tmp_path: Path) -> None:
    plan = replace(SMALL, updates=3, every=1)
    trials = [trial(name, seed, 0.1 * seed) for name in ("copy_parent", "dare", "neftune") for seed in range(3)]
    figure = draw(trials, plan)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title().split()[0] for axes in shown] == ["copy_parent", "dare", "neftune"]
    assert [len(axes.lines) for axes in shown] == [5, 6, 6], "zero, three children, the controls, the mean"
    write(figure, tmp_path / "x.png")
    assert matplotlib.image.imread(tmp_path / "x.png").std() > 0.05


QUICK = ("--seeds", "2", "--updates", "2", "--tasks", "3")


@pytest.mark.slow
def test_the_command(played: Path, tmp_path: Path) -> None:
    done = redqueen("retention", str(played), *QUICK, "--json", "--figure", str(tmp_path / "r.svg"))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["plan"]["measured"] == [0, 2]
    assert {o["operator"] for o in found["operators"]} == EVERYONE
    assert len(found["trials"]) == 2 * len(EVERYONE)
    assert "svd_spectral" in (tmp_path / "r.svg").read_text()


def test_the_table_has_a_line_for_each_operator(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = replace(SMALL, seeds=1, updates=1, tasks=3, practice=2)
    assert run_retention(played, 1, plan, NOTHING, as_json=False, figure=None) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in EVERYONE:
        assert sum(line.startswith(f"{name} ") for line in lines) == 1


@pytest.mark.parametrize(
    ("step", "figure", "tasks", "message"),
    [
        (77, None, 3, "no checkpoint at step 77: choose one of 0, 1, 2, 3, 4"),
        (None, Path("x.pdf"), 3, "must end in .png or .svg"),
        (None, Path("nowhere/x.png"), 3, "the folder nowhere does not exist"),
        (None, None, 100_000, "there are 70 reserved tasks, choose at most that"),
    ],
)
def test_impossible_options_are_refused(
    played: Path, step: int | None, figure: Path | None, tasks: int, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        run_retention(played, step, replace(SMALL, tasks=tasks), NOTHING, as_json=True, figure=figure)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_of_another_base_is_refused(saved: Checkpoint, played: Path, tmp_path: Path) -> None:
    config = RunDirectory(played).config().override([f"model.name={tiny.make(tmp_path / 'other', seed=1)}"])
    with pytest.raises(CheckpointError, match="was made on other weights"), open_replay(config, saved, 1):
        pass


def test_a_run_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no checkpoint"):
        load_step(RunDirectory(tmp_path), None)
