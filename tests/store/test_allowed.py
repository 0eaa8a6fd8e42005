"""Before a run goes on, its records are compared with its newest checkpoint, and every refusal has a way on."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from redqueen.config import Config
from redqueen.store.allowed import check_records
from redqueen.store.archive.rows import AttemptRow, MatchRow, StandingRow
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunDirectory, RunError

STEPS = 5


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run of five steps with checkpoints after the second, the fourth and the fifth."""
    directory = RunDirectory(tmp_path / "run")
    directory.create(Config(), {})
    for step in (2, 4, STEPS):
        (directory.checkpoints / f"step-{step:06d}").mkdir()
    with Archive(directory.archive) as archive:
        for step in range(1, STEPS + 1):
            directory.append_metrics({"step": step})
            archive.write([match(step), StandingRow(step=step, member="S0", mu=25, sigma=8, games=1, fitness=None)])
            archive.write([attempt(step, number) for number in range(40)])
    return directory


def match(step: int) -> MatchRow:
    return MatchRow(
        id=f"{step}.0", step=step, teacher="T0", student="S0", score=None, outcome=None,
        teacher_mu=25.0, teacher_sigma=8.0, student_mu=24.0, student_sigma=7.0,
    )  # fmt: skip


def attempt(step: int, number: int) -> AttemptRow:
    return AttemptRow(
        task=f"{step}.0", number=number, step=step, student="S0", text="2" * 900, tokens=3, finish_reason="stop",
        status="correct", output="", detail="", cpu_ms=0.5, reward=1.0,
    )  # fmt: skip


def write(run: RunDirectory, steps: list[int], end: str = "") -> None:
    run.metrics_file.write_text("".join(json.dumps({"step": step}) + "\n" for step in steps) + end)


def refusal(run: RunDirectory) -> str:
    with pytest.raises(RunError) as caught:
        check_records(run, STEPS)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{run.path}/", "")


def test_a_whole_run_may_go_on(run: RunDirectory) -> None:
    assert check_records(run, STEPS) == ""


@pytest.mark.parametrize("end", ["", '{"step": 6'])
def test_steps_after_the_checkpoint_may_be_there_or_be_cut_off(run: RunDirectory, end: str) -> None:
    write(run, [1, 2, 3, 4, 5, 6], end)
    assert check_records(run, STEPS) == ""


@pytest.mark.parametrize("cut", ["", '{"step": 5', '{"step": 5}'])
def test_a_last_line_that_is_missing_or_cut_off_is_named(run: RunDirectory, cut: str) -> None:
    write(run, [1, 2, 3, 4], cut)
    says = "metrics.jsonl lacks step 5: put the file back, or move step-000005 away to play it again"
    assert refusal(run) == says


def test_a_step_between_is_played_again_from_the_checkpoint_before_it(run: RunDirectory) -> None:
    write(run, [1, 2, 4, 5])
    says = "lacks step 3: put the file back, or move step-000004 and all later ones away to play it again"
    assert says in refusal(run)
    for step in (4, 5):
        (run.checkpoints / f"step-{step:06d}").rename(run.path / f"step-{step:06d}")
    assert check_records(run, 2) == "", "as the line says"


def test_without_an_earlier_checkpoint_the_lines_before_go(run: RunDirectory) -> None:
    write(run, [1, 3, 4, 5])
    assert refusal(run) == "metrics.jsonl lacks step 2: put the file back, or remove the lines before it to go without"
    write(run, [3, 4, 5])
    assert check_records(run, STEPS).endswith("begins after step 2: reports show nothing of what was before")
    write(run, [])
    assert check_records(run, STEPS).endswith("begins after step 5: reports show nothing of what was before")


@pytest.mark.parametrize(("steps", "what"), [([1, 2, 3, 4, 5, 5], "step 5 twice"), ([2, 1, 3, 4, 5], "1 after step 2")])
def test_lines_that_are_double_or_out_of_order_are_named(run: RunDirectory, steps: list[int], what: str) -> None:
    write(run, steps)
    assert what in refusal(run)
    assert refusal(run).endswith("put the file back, or remove one of the lines")


@pytest.mark.parametrize("table", ["matches", "standings"])
def test_rows_of_a_step_that_are_gone_are_named(run: RunDirectory, table: str) -> None:
    with Archive(run.archive) as archive, archive.connection:
        archive.connection.execute(f"DELETE FROM {table} WHERE step IN (3, 5)")
    says = "run.sqlite lacks step 3: put the file back, or move step-000004 and all later ones away to play it again"
    assert refusal(run) == says
    with Archive(run.archive) as archive, archive.connection:
        archive.connection.execute(f"DELETE FROM {table} WHERE step = 1")
    assert refusal(run) == "run.sqlite lacks step 1: put the file back, or start a new run"


def test_an_archive_with_random_pages_is_found_before_anything_is_loaded(run: RunDirectory) -> None:
    data = bytearray(run.archive.read_bytes())
    noise = random.Random(0)
    pages = range(20, len(data) // 4096)
    for page in noise.sample(pages, 3):
        data[page * 4096 : (page + 1) * 4096] = noise.randbytes(4096)
    run.archive.write_bytes(data)
    assert refusal(run).startswith("run.sqlite is damaged (")
    assert refusal(run).endswith("): put a copy of the file back, or start a new run")


def test_an_archive_that_is_cut_off_is_found(run: RunDirectory) -> None:
    run.archive.write_bytes(run.archive.read_bytes()[: -2 * 4096])
    assert "put" in refusal(run)


def test_an_archive_that_is_empty_or_missing_says_so(run: RunDirectory) -> None:
    run.archive.write_bytes(b"")
    assert refusal(run) == "run.sqlite is empty: put a copy of the file back, or start a new run"
    run.archive.unlink()
    assert refusal(run) == "run.sqlite is missing: put it back, or start a new run"
