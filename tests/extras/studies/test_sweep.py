"""Sweeps: grids as people write them, tables from metrics, and real runs that are skipped, resumed or restarted."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from redqueen.config import ConfigError
from redqueen.config.recipes import configure
from redqueen.extras.studies import sweep_command as command
from redqueen.extras.studies.sweep import Combination, SweepRun, grid, plan_runs
from redqueen.extras.studies.sweep_command import rows, run_sweep
from redqueen.store.directory import RunDirectory, RunError
from tests import tiny
from tests.cli.running import redqueen, started

START = configure(["quickstart"])


def test_every_combination_the_last_option_fastest() -> None:
    found = grid(["evolution.enabled=true,false", "learning.lr= 1e-4, 3e-4"], START)
    assert [cell.overrides for cell in found] == [
        ("evolution.enabled=true", "learning.lr=1e-4"),
        ("evolution.enabled=true", "learning.lr=3e-4"),
        ("evolution.enabled=false", "learning.lr=1e-4"),
        ("evolution.enabled=false", "learning.lr=3e-4"),
    ]
    assert found[0].name == "evolution.enabled=true_learning.lr=1e-4"
    assert grid([], START) == [Combination("all", ())]


def test_lists_go_in_brackets() -> None:
    one, two = grid(["evolution.mutations=[svd_spectral,neftune],[copy_parent]"], START)
    assert START.override(one.overrides).evolution.mutations == ("svd_spectral", "neftune")
    assert START.override(two.overrides).evolution.mutations == ("copy_parent",)
    assert one.name == "evolution.mutations=svd_spectral,neftune"


def test_a_population_and_its_single_agents_are_arms() -> None:
    cells = grid(["matched=none,per_adapter,total", "learning.lr=1e-4,3e-4"], START)
    assert [cell.name for cell in cells][::2] == [
        "matched=none_learning.lr=1e-4", "matched=per_adapter_learning.lr=1e-4", "matched=total_learning.lr=1e-4",
    ]  # fmt: skip
    configs = [configure(["quickstart", *cell.overrides]) for cell in cells]
    assert [config.population.single_agent for config in configs] == [False, False, True, True, True, True]
    assert [config.game.matches for config in configs] == [0, 0, 1, 1, 2, 2]
    assert [config.learning.lr for config in configs] == [1e-4, 3e-4] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["matched=none,all"], "matched=all: choose one of"),
        (["evolution.enabled"], "write KEY=VALUE,VALUE"),
        (["evolution.enabeld=true,false"], "did you mean 'evolution.enabled'"),
        (["learning.lr=1e-4,fast"], "learning.lr"),
        (["evolution.mutations=svd_spectral,neftune"], "each value goes in brackets"),
        (["evolution.mutations=[svd_spectral,[neftune]"], "one that holds commas goes in brackets"),
        (["evolution.mutations=[svd_spectral],neftune]"], "one that holds commas goes in brackets"),
        (["learning.lr=1e-4,,2e-4"], "values are separated by commas"),
        (["learning.lr="], "values are separated by commas"),
        (["run.seed=1,2"], "--seeds N"),
        (["learning.lr=1e-4", "learning.lr=2e-4"], "given twice"),
        (["learning.lr=1e-4,1e-4"], "two cells would share a folder"),
    ],
)
def test_an_unreadable_grid_is_a_one_line_error(options: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        grid(options, START)
    assert "\n" not in str(caught.value)


def line(solve: float | None, contested: int = 1) -> dict[str, Any]:
    return {
        "solve_rate": solve,
        "valid_rate": 0.5,
        "novel_rate": None,
        "tasks_by_kind": {"code_o": 4, "code_i": 0},
        "contested_by_kind": {"code_o": contested, "code_i": 0},
    }


def test_means_over_steps_then_over_seeds_then_differences_by_seed() -> None:
    lines = {
        "on": {s: [line(0.1 * s + 0.01 * t) for t in range(8)] for s in (1, 2, 3)},
        "off": {s: [line(0.1 * s + 0.01 * t - 0.05 - 0.001 * s) for t in range(8)] for s in (1, 2)},
    }
    probes = {"on": {1: 0.5, 2: 0.6, 3: 0.9}, "off": {1: 0.4, 2: 0.5}}
    found = {(row.metric, row.cell): row for row in rows(lines, probes)}
    on, off = found["solve_rate", "on"], found["solve_rate", "off"]
    assert on.final is not None
    assert on.mean is not None
    assert on.final.mean == pytest.approx(0.2 + 0.065), "steps 6 and 7: the last quarter"
    assert on.mean.mean == pytest.approx(0.2 + 0.035)
    assert on.final_over is None
    assert off.final_over is not None
    assert (off.final_over.n, off.final_over.mean) == (2, pytest.approx(-0.0515)), "seed 3 has no partner"
    assert off.final_over.below
    contested = found["contested", "on"].mean
    assert contested is not None
    assert contested.mean == 0.25
    assert found["novel_rate", "on"].final is None
    assert found["probe", "on"].final is not None
    assert found["probe", "on"].mean is None
    assert {row.metric for row in rows(lines, {"on": {}, "off": {}})} == {
        "solve_rate",
        "valid_rate",
        "contested",
        "novel_rate",
    }


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    model = tiny.make(tmp_path_factory.mktemp("model") / "tiny")
    return (
        "quickstart", f"model.name={model}", "model.threads=1", "model.workers=1", "model.dtype=float32",
        "population.init=fresh", "sandbox.workers=1", "game.kinds=code_o", "game.proposals=2", "game.attempts=2",
        "sampling.proposal_tokens=8", "sampling.attempt_tokens=4",
    )  # fmt: skip


def test_a_kept_score_of_other_tasks_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The file says which kinds were asked, in which release.
    measured: list[tuple[str, ...]] = []

    def measure(run: SweepRun, *_: object) -> dict[str, float]:
        measured.append(run.config.game.kinds)
        return {"S0": 0.5}

    monkeypatch.setattr(command, "_measure", measure)

    def score(kinds: str) -> float:
        config = START.override([f"game.kinds={kinds}"])
        return command.held_out_score(SweepRun("all", 0, (), config, tmp_path / "seed-0"), 3, Console(quiet=True))

    assert [score("code_o,code_i"), score("code_i,code_o"), score("code_o,code_f")] == [0.5] * 3
    assert measured == [("code_o", "code_i"), ("code_o", "code_f")]
    monkeypatch.setattr(command, "__version__", "0.0.0")
    score("code_o,code_f")
    assert len(measured) == 3


def test_a_probe_makes_the_sizes_that_are_left_to_the_machine_fit(played: Path, tmp_path: Path) -> None:
    shutil.copytree(played, tmp_path / "seed-0")
    config = RunDirectory(played).config().override(["sampling.batch_rows=0"])
    run = SweepRun("all", 0, (), config, tmp_path / "seed-0")
    assert 0 <= command.held_out_score(run, 2, Console(quiet=True)) <= 1


AXIS = ["evolution.enabled=true,false"]


@pytest.mark.slow
def test_a_sweep_plays_then_skips_resumes_and_restarts(
    tmp_path: Path, small: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s"
    # A run keeps the number format that auto chooses, and a resumed sweep asks for auto again.
    small = (*(setting for setting in small if not setting.startswith("model.dtype")), "model.dtype=auto")
    axis = ("--grid", *AXIS, "--seeds", "1", "--probe", "3", "--jobs", "2", "--out", str(out))
    done = redqueen("sweep", *small, "run.steps=1", *axis)
    assert done.returncode == 0, done.stderr
    table = json.loads((out / "sweep.json").read_text())
    assert [run["done"] for run in table["runs"]] == [True, True]
    assert {row["metric"] for row in table["rows"]} >= {"solve_rate", "probe"}
    assert "evolution.enabled=false" in done.stdout
    on, off = (RunDirectory(out / f"evolution.enabled={v}" / "seed-0") for v in ("true", "false"))
    assert (on.config().evolution.enabled, off.config().evolution.enabled) == (True, False)
    # with one more step, one run is resumed; the other is as if killed before its first checkpoint, and starts again
    shutil.rmtree(off.checkpoints)
    off.checkpoints.mkdir()
    off.metrics_file.unlink()
    off.archive.unlink()
    more = (*small, "run.steps=2")
    assert run_sweep(more, AXIS, 1, out, 2, 3, as_json=True) == 0
    again = capsys.readouterr().out
    assert [len(d.metrics()) for d in (on, off)] == [2, 2]
    assert json.loads(again) == json.loads((out / "sweep.json").read_text())
    logs = [(d.path.parent / "seed-0.log").read_text() for d in (on, off)]
    assert ["resuming at step 2 of 2" in log for log in logs] == [True, False]
    # all runs are complete: no file changes, and held-out scores are not measured again
    kept = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file() and p.name != "sweep.json"}
    assert run_sweep(more, AXIS, 1, out, 1, 3, as_json=True) == 0
    assert capsys.readouterr().out == again
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    with pytest.raises(RunError, match=r"holds a run with another learning\.lr: choose another --out"):
        run_sweep((*more, "learning.lr=0.5"), AXIS, 1, out, 1, 3, as_json=True)


def test_a_run_whose_checkpoints_are_gone_is_kept(tmp_path: Path) -> None:
    def planned() -> list[SweepRun]:
        return plan_runs(["quickstart", "run.steps=2"], [Combination("all", ())], 1, tmp_path)

    (run,) = planned()
    directory = RunDirectory(run.path)
    directory.create(run.config, {})
    directory.append_metrics({"step": 1})
    with pytest.raises(RunError, match="has records of a run and no checkpoint to go on from"):
        planned()
    assert len(directory.metrics()) == 1


def test_a_plan_comes_before_a_sweep(tmp_path: Path) -> None:
    axis = ("--grid", *AXIS, "--seeds", "2", "--out", str(tmp_path / "s"))
    done = redqueen("sweep", "run.steps=4", *axis, "--dry-run")
    assert done.returncode == 0
    assert "2 cells: evolution.enabled=true, evolution.enabled=false" in done.stderr
    assert "4 runs, 0 of them finished; 4 to train, 16 steps" in done.stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_sigterm_is_handed_on_to_the_run(tmp_path: Path, small: tuple[str, ...]) -> None:
    log = tmp_path / "s" / "all" / "seed-0.log"
    with started(
        "sweep", *small, "run.steps=1000", "--seeds", "1", "--probe", "0", "--out", str(tmp_path / "s")
    ) as one:
        while not (log.exists() and "step 2 " in log.read_text()):
            assert one.poll() is None
            time.sleep(0.05)
        (run,) = psutil.Process(one.pid).children()
        one.terminate()
        assert one.wait() == 130
        assert not run.is_running() or run.status() == psutil.STATUS_ZOMBIE
    assert "stopped by SIGTERM" in log.read_text()
    assert "Resume" in log.read_text()


def test_a_probe_scores_no_other_step_than_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("quickstart", "run.steps=100")
    run = RunDirectory(tmp_path / "all" / "seed-0")
    run.create(configure([*args, "run.seed=0", "run.steps=200"]), {})
    run.metrics_file.touch()
    for step in (195, 200):
        (run.checkpoints / f"step-{step:06d}").mkdir(parents=True)
    assert run_sweep(args, [], 1, tmp_path, 1, 3, as_json=True) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["probes"] == {"all": {}}
    assert "not measured: all seed 0: " in said.err
    assert "has no checkpoint at step 100: choose one of 195, 200" in said.err


@pytest.mark.slow
def test_one_failed_run_does_not_take_the_others_down(
    tmp_path: Path, small: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"population.init=fresh,{tmp_path}/nothing"]
    assert run_sweep((*small, "run.steps=1"), options, 1, tmp_path / "s", 2, 0, as_json=False) == 1
    table = json.loads((tmp_path / "s" / "sweep.json").read_text())
    assert [run["done"] for run in table["runs"]] == [True, False]
    (log,) = [log.read_text() for log in (tmp_path / "s").glob("*nothing/seed-0.log")]
    assert "nothing" in log
    said = capsys.readouterr()
    assert "not finished: " in said.err
    assert "solve" in said.out


@pytest.mark.parametrize(("args", "options"), [((), ["evolution.enabled=maybe"]), (("no_such_recipe",), [])])
def test_an_impossible_sweep_is_refused_before_anything_runs(
    tmp_path: Path, args: tuple[str, ...], options: list[str]
) -> None:
    with pytest.raises(ConfigError):
        run_sweep(args, options, 1, tmp_path / "s", 1, 0, as_json=True)
    assert not (tmp_path / "s").exists()
