"""What SQLite adds up over an archive is what the rows come to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.store.archive.queries import Career, Cell, careers, cells, last_ratings, last_standing, outcomes
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import Row
from redqueen.store.archive.writer import Archive
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
