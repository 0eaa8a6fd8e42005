"""Searches in texts: they read the newest steps first, stop in time, and say how far they came."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.synthetic_run import Size, SyntheticRun
from redqueen.store.archive.queries import TaskQuery, containing, led_to
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.directory import RunDirectory

STEPS = 4


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArchiveReader]:
    run = tmp_path_factory.mktemp("searched") / "run"
    SyntheticRun(run, Size(steps=STEPS, matches=2, tasks=3, attempts=2)).write()
    with ArchiveReader(RunDirectory(run).archive) as opened:
        yield opened


def test_everything_is_found_the_newest_first(archive: ArchiveReader) -> None:
    found = containing(archive, "DEF", "tasks", TaskQuery(), last=STEPS, limit=1000, seconds=60)
    tasks = archive.tasks()
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
    expected = {task.id for task in archive.tasks() if task.kind == "code_f" and 2 <= task.step <= 3}
    assert set(found.ids) == expected
    assert (found.first, found.last) == (2, 3)


def test_signs_of_patterns_mean_themselves(archive: ArchiveReader) -> None:
    for text in ("%", "_", "\\", "'"):
        found = containing(archive, text, "tasks", TaskQuery(), last=STEPS, limit=1000, seconds=60)
        assert set(found.ids) == {task.id for task in archive.tasks() if text in task.program + task.message}


def test_what_a_task_led_to_is_by_its_whole_name(archive: ArchiveReader) -> None:
    assert led_to(archive, "seed-1-code_o", first=1, last=2, limit=1000, seconds=60).last == 2
    assert led_to(archive, "seed-1-code", first=1, last=STEPS, limit=1000, seconds=60).ids == ()
    nothing = led_to(archive, "seed-1-code_o", first=STEPS + 1, last=STEPS, limit=10)
    assert (nothing.ids, nothing.complete) == ((), True)
