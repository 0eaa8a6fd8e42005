"""What is asked of an archive: what its rows add up to, and which texts hold a word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.synthetic_run import Size, SyntheticRun
from redqueen.store.archive.queries import (
    Career,
    Cell,
    TaskQuery,
    careers,
    cells,
    containing,
    last_ratings,
    last_standing,
    led_to,
    outcomes,
)
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import BANK, Row, TaskRow
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunDirectory
from tests.store.test_archive import match, proposal, standing, task


def played(name: str, step: int, student: str, outcome: str | None, rates: dict[str, float | None]) -> list[Row]:
    """A match with one task for each of `rates`, and a refused proposal."""
    met = replace(match(name, step), student=student, outcome=outcome, student_mu=20.0 + step, teacher_mu=30.0 - step)
    rows: list[Row] = [met]
    rows.append(replace(proposal(f"{name}.refused", step), match=name, status="error"))
    for task_name, rho in rates.items():
        rows.append(replace(proposal(f"{name}.{task_name}", step), match=name))
        rows.append(replace(task(f"{name}.{task_name}", step), rho=rho))
    return rows


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[ArchiveReader]:
    with Archive(tmp_path / "run.sqlite") as archive:
        archive.write(
            [
                *played("1.0", 1, "S0", "draw", {"a": 0.25, "b": 0.75, "c": None}),
                *played("1.1", 1, "S1", "student", {"a": None}),
                standing(1),
                replace(standing(1), member="S1", games=1, fitness=0.5),
            ]
        )
        archive.write([*played("2.0", 2, "S0", None, {"a": 1.0}), replace(standing(2), games=2, fitness=3.0)])
        archive.write([*played("3.0", 3, "S0", "draw", {}), replace(standing(3), games=3, fitness=4.0)])
        # Practice at fixed tasks is written behind a step's games, with the rating of nobody.
        practice = replace(match("3.1", 3), teacher=BANK, student="S0", outcome=None)
        archive.write([replace(practice, student_mu=25.0, student_sigma=25 / 3)])
    with ArchiveReader(tmp_path / "run.sqlite") as opened:
        yield opened


def test_a_cell_is_the_mean_over_all_tasks_with_a_solve_rate(reader: ArchiveReader) -> None:
    assert cells(reader) == [Cell(teacher="T0", student="S0", kind="code_o", tasks=3, rho=2 / 3)]


def test_matches_without_a_game_are_counted_apart(reader: ArchiveReader) -> None:
    assert outcomes(reader) == {("T0", "S0"): {"draw": 2, "none": 1}, ("T0", "S1"): {"student": 1}}


def test_a_rating_is_the_one_after_the_last_match(reader: ArchiveReader) -> None:
    assert last_ratings(reader) == {"T0": (27.0, 8.0), "S0": (23.0, 7.0), "S1": (21.0, 7.0)}


def test_a_career_begins_when_fitness_is_first_known(reader: ArchiveReader) -> None:
    assert careers(reader) == {
        "S0": Career(games=3, first=3.0, first_rated=2, last=4.0),
        "S1": Career(games=1, first=0.5, first_rated=1, last=0.5),
    }
    assert last_standing(reader) == 3


def test_an_archive_of_no_steps_comes_to_nothing(tmp_path: Path) -> None:
    Archive(tmp_path / "run.sqlite").close()
    with ArchiveReader(tmp_path / "run.sqlite") as empty:
        assert (cells(empty), outcomes(empty), last_ratings(empty), careers(empty)) == ([], {}, {}, {})
        assert last_standing(empty) == 0


# Searches in texts: they read the newest steps first, stop in time, and say how far they came.

STEPS = 4


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArchiveReader]:
    run = tmp_path_factory.mktemp("searched") / "run"
    SyntheticRun(run, Size(steps=STEPS, matches=2, tasks=3, attempts=2)).write()
    with ArchiveReader(RunDirectory(run).archive) as opened:
        yield opened


def test_everything_is_found_the_newest_first(archive: ArchiveReader) -> None:
    found = containing(archive, "DEF", "tasks", TaskQuery(), last=STEPS, limit=1000, seconds=60)
    tasks = archive.every(TaskRow)
    assert set(found.ids) == {task.id for task in tasks}
    steps = [int(name.split(".")[0]) for name in found.ids]
    assert steps == sorted(steps, reverse=True)
    assert (found.first, found.last, found.complete) == (1, STEPS, True)


def test_a_search_without_time_reads_one_step_and_goes_on_from_there(archive: ArchiveReader) -> None:
    whole = containing(archive, "def", "tasks", TaskQuery(), last=STEPS, limit=1000, seconds=60)
    parts: list[str] = []
    last = STEPS
    while last:
        found = containing(archive, "def", "tasks", TaskQuery(), last=last, limit=1000, seconds=0)
        assert (found.first, found.last) == (last, last)
        assert found.complete == (last == 1)
        parts += found.ids
        last = found.first - 1
    assert tuple(parts) == whole.ids


def test_a_limit_ends_it_after_the_step_that_reaches_it(archive: ArchiveReader) -> None:
    found = containing(archive, "def", "tasks", TaskQuery(), last=STEPS, limit=1, seconds=60)
    assert {name.split(".")[0] for name in found.ids} == {str(STEPS)}
    assert not found.complete


def test_filters_hold_in_tasks_and_in_answers(archive: ArchiveReader) -> None:
    wanted = TaskQuery(kind="code_f", first=2, last=3)
    found = containing(archive, "return", "answers", wanted, last=STEPS, limit=1000, seconds=60)
    expected = {task.id for task in archive.every(TaskRow) if task.kind == "code_f" and 2 <= task.step <= 3}
    assert set(found.ids) == expected
    assert (found.first, found.last) == (2, 3)


def test_signs_of_patterns_mean_themselves(archive: ArchiveReader) -> None:
    for text in ("%", "_", "\\", "'"):
        found = containing(archive, text, "tasks", TaskQuery(), last=STEPS, limit=1000, seconds=60)
        assert set(found.ids) == {task.id for task in archive.every(TaskRow) if text in task.program + task.message}


def test_what_a_task_led_to_is_by_its_whole_name(archive: ArchiveReader) -> None:
    assert led_to(archive, "seed-1-code_o", first=1, last=2, limit=1000, seconds=60).last == 2
    assert led_to(archive, "seed-1-code", first=1, last=STEPS, limit=1000, seconds=60).ids == ()
    nothing = led_to(archive, "seed-1-code_o", first=STEPS + 1, last=STEPS, limit=10)
    assert (nothing.ids, nothing.complete) == ((), True)
