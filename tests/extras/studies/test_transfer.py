"""The stranger: curricula of equal length from the ends of a run, and fresh students that are trained on them."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import typer

from redqueen.config import ConfigError
from redqueen.config.recipes import configure
from redqueen.errors import UserError
from redqueen.extras.studies import commands, transfer
from redqueen.extras.studies.transfer import (
    NOTES,
    SEEDS,
    Curriculum,
    Part,
    curricula,
    gain,
    once,
    rows,
    run_transfer,
    seed_curriculum,
    shared_kinds,
    shortened,
    stranger_settings,
)
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Kind
from redqueen.store.dataset import TaskRecord
from redqueen.store.directory import RunDirectory
from tests import toy
from tests.cli.running import redqueen


def record(number: int, kind: Kind = "code_o", program: str = "def f(x):\n    return x") -> TaskRecord:
    return TaskRecord(
        run="r", id=str(number), step=number, kind=kind, author="T0", student="S0", program=program, inputs=("1",),
        outputs=("1",), message="", shown=0, attempts=2, solved=1, solve_rate=0.5, teacher_reward=0.5, novel=True,
        shape=str(number),
    )  # fmt: skip


def curriculum(part: Part, *records: TaskRecord) -> Curriculum:
    return Curriculum(run="r", part=part, records=records)


def seeds_of(*records: TaskRecord) -> Curriculum:
    return Curriculum(run=SEEDS, part=None, records=records)


def test_curricula_are_as_long_as_the_shortest_in_each_kind_that_all_have() -> None:
    first = curriculum("first", *map(record, range(9)), record(9, "code_f"))
    last = curriculum("last", *map(record, range(4)), record(4, "code_i"))
    short, same = shortened([first, last], 0)
    assert short.counts() == same.counts() == {"code_o": 4}
    assert [one.step for one in short.records] == sorted(one.step for one in short.records), "oldest first"
    assert shortened([first, last], 0)[0] == short
    assert shortened([first, last], 1)[0] != short
    with pytest.raises(UserError, match="the tasks of r-last share no kind"):
        shared_kinds([first, curriculum("last", record(1, "code_i"))])


def test_a_file_of_two_runs_which_has_ids_twice_is_shortened_like_any_other() -> None:
    twice = curriculum("first", *(record(number) for number in [0, 1, 2, 3] * 2))
    short, _ = shortened([twice, curriculum("last", *map(record, range(4)))], 0)
    assert len(short.records) == 4


def line(*gains: float) -> Any:
    return {"held_out": {"students": {f"S{i}": {"gain": value} for i, value in enumerate(gains)}}} if gains else {}


def test_gains_are_compared_seed_by_seed() -> None:
    assert gain([line(0.5), line(0.2, 0.4), line()]) == pytest.approx(0.3)
    assert gain([line()]) is None
    longer = record(2, program="def f(x):\n    y = x\n    return y")
    parts = [seeds_of(record(3), record(4)), curriculum("first", record(1)), curriculum("last", longer)]
    gains = {SEEDS: {0: 0.1, 1: 0.2}, "r-first": {0: 0.2, 1: 0.4}, "r-last": {1: 0.3}}
    seeds, first, last = rows(parts, gains)
    assert (seeds.gain and seeds.gain.mean, seeds.over_seeds, seeds.tasks) == (pytest.approx(0.15), None, 2)
    assert (first.over_seeds and first.over_seeds.mean, first.last_over_first) == (pytest.approx(0.15), None)
    assert (last.over_seeds and last.over_seeds.mean) == pytest.approx(0.1)
    assert (last.last_over_first and last.last_over_first.mean) == pytest.approx(-0.1)
    assert (last.lines, last.solve_rate, last.tasks) == (3.0, 0.5, 1)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, verifier: LocalVerifier) -> RunDirectory:
    return toy.played(tmp_path_factory.mktemp("toy"), verifier, **{"run.steps": 3, "model.prompts": "completion"})


def test_parts_are_the_ends_of_a_run_and_strangers_are_of_its_base(played: RunDirectory, tmp_path: Path) -> None:
    first, last = shortened(curricula([played.path]), 0)
    assert {one.step for one in first.records} == {1}
    assert {one.step for one in last.records} == {3}
    assert first.counts() == last.counts()
    settings = stranger_settings([played.path], ["code_o"])
    assert f"model.name={played.config().model.name}" in settings
    assert "game.kinds=code_o" in settings
    other = RunDirectory(tmp_path / "other")
    other.create(played.config().override(["model.rank=2"]), {})
    with pytest.raises(UserError, match=r"model\.rank=2"):
        stranger_settings([played.path, other.path], ["code_o"])
    with pytest.raises(UserError, match="nothing was trained here"):
        curricula([other.path])
    with pytest.raises(UserError, match="given twice"):
        curricula([played.path, played.path])


def test_thirds_are_of_steps_also_where_the_first_lines_are_lost(played: RunDirectory, tmp_path: Path) -> None:
    cut = RunDirectory(tmp_path / "cut")
    shutil.copytree(played.path, cut.path)
    cut.metrics_file.write_text(cut.metrics_file.read_text().splitlines(keepends=True)[-1])
    first, last = curricula([cut.path])
    assert ({one.step for one in first.records}, {one.step for one in last.records}) == ({1}, {3})


def test_runs_of_a_sweep_are_called_by_their_cells(played: RunDirectory, tmp_path: Path) -> None:
    cells = [tmp_path / cell / "seed-0" for cell in ("learning.lr=1e-4", "learning.lr=3e-4")]
    for folder in cells:
        shutil.copytree(played.path, folder)
    assert [one.run for one in curricula(cells)[::2]] == ["learning.lr=1e-4-seed-0", "learning.lr=3e-4-seed-0"]
    assert [one.run for one in curricula(cells[:1])] == ["seed-0", "seed-0"]


@pytest.mark.parametrize("name", ["run.jsonl", "run.parquet"])
def test_a_file_of_tasks_stands_for_the_run_that_wrote_them(played: RunDirectory, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    exported = redqueen("tasks", "export", str(played.path), "--out", str(file))
    assert exported.returncode == 0, exported.stderr
    assert curricula([file]) == curricula([played.path])
    assert stranger_settings([file], ["code_o"]) == ["game.kinds=code_o"]
    assert stranger_settings([file, played.path], ["code_o"]) == stranger_settings([played.path], ["code_o"])


def test_what_is_no_exported_file_of_a_run_is_refused_with_its_row(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    rows = [asdict(record(step)) for step in (1, 2)]
    file.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match=r"tasks\.jsonl has 2 steps: its first and last third need at least 3"):
        curricula([file])
    del rows[1]["step"]
    file.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match="row 2, step: Field required"):
        curricula([file])


def test_a_repeated_task_counts_once_as_in_the_task_bank_of_a_stranger() -> None:
    records = [record(1), record(2), record(3, program="def f(x):\n    return  x  # respelled"), record(4, "code_i")]
    assert [one.id for one in once(records)] == ["1", "4"]


def test_the_seeds_have_as_many_tasks_of_each_kind() -> None:
    stranger = configure(["rlvr", "game.kinds=code_f,code_o", "game.seed_tasks=6"])
    seeds = seed_curriculum(stranger.play_settings, stranger.sandbox, students_alone=True)
    first = curriculum("first", *map(record, range(3)), record(3, "code_f"))
    found = shortened([seeds, first], 0)
    assert [one.counts() for one in found] == [{"code_f": 1, "code_o": 3}] * 2
    assert (found[0].name, found[0].solve_rate()) == (SEEDS, None)
    assert found[0].lines()


def test_lines_are_those_of_the_language() -> None:
    assert curriculum("first", record(1, "sql_o", "SELECT a FROM t")).lines()


def test_the_notes_say_what_an_interval_over_seeds_leaves_out() -> None:
    assert "They leave out what all\nseeds share: the held-out problems, and the start's one answer to each." in NOTES


def test_a_transfer_needs_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="name the runs"):
        run_transfer([], ["run.steps=1"], 1, tmp_path / "out", 1, as_json=True)


def test_runs_of_a_sweep_are_told_from_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[list[str], list[str]]] = []

    def run(paths: list[Path], overrides: list[str], *_: object, as_json: bool) -> int:
        called.append(([path.as_posix() for path in paths], overrides))
        return int(as_json)

    monkeypatch.setattr(transfer, "run_transfer", run)
    monkeypatch.chdir(tmp_path)
    Path("learning.lr=2e-4/seed-0").mkdir(parents=True)
    runs = ["sweeps/learning.lr=1e-4/seed-0", "sweeps/learning.lr=1e-4/seed-1", "learning.lr=2e-4/seed-0", "c.parquet"]
    settings = ["run.steps=1", "learning.lr=3e-4", "game.tasks=a/b.jsonl"]
    with pytest.raises(typer.Exit):
        commands.transfer.function([*runs, *settings], Path("out"))
    assert called == [(runs, settings)]
    with pytest.raises(ConfigError, match=r"run\.steps is given twice"):
        commands.transfer.function(["sweeps/a=1/seed-0", "run.steps=1", "run.steps=2"], Path("out"))


@pytest.mark.slow
def test_strangers_are_trained_once(played: RunDirectory, tmp_path: Path) -> None:
    small = (
        *("model.threads=1", "model.workers=1", "model.dtype=float32", "sandbox.workers=1", "run.steps=1"),
        *("game.proposals=2", "game.attempts=2", "game.seed_tasks=20", "sampling.attempt_tokens=4", "evals.limit=3"),
    )
    out = tmp_path / "out"
    done = redqueen("transfer", str(played.path), *small, "--seeds", "1", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "3 strangers, 3 to train" in done.stderr
    table = json.loads((out / "transfer.json").read_text())
    assert [row["cell"] for row in table["rows"]] == ["seeds", "run-first", "run-last"]
    assert all(row["gain"]["n"] == 1 for row in table["rows"])
    runs = [RunDirectory(out / cell / "seed-0") for cell in ("seeds", "run-first", "run-last")]
    names = [Path(run.config().game.tasks or "").name for run in runs]
    assert names == ["seeds.jsonl", "run-first.jsonl", "run-last.jsonl"]
    assert [row["tasks"] for row in table["rows"]] == [sum(table["tasks"].values())] * 3
    again = redqueen("transfer", str(played.path), *small, "--seeds", "1", "--out", str(out), "--json")
    assert "3 strangers, 0 to train" in again.stderr
    assert json.loads(again.stdout) == table
    (out / "run-last.jsonl").write_text("{}")
    refused = redqueen("transfer", str(played.path), *small, "--seeds", "1", "--out", str(out))
    assert refused.returncode == 2
    assert "holds other tasks: the runs or the settings have changed" in refused.stderr
