"""The benchmark of the live page at tiny size: the drawn run is a run, and every view of it is timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from benchmarks.synthetic_run import Size, SyntheticRun
from benchmarks.watch import run_bench_watch, views
from redqueen.store.archive.queries import Sort, TaskQuery, cells, count, find
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import AttemptRow, MatchRow, MeasureRow, ProposalRow, TaskRow
from redqueen.store.directory import RunDirectory
from redqueen.store.lineage import lives

TINY = Size(steps=11, matches=2, tasks=3, attempts=2)


def test_the_drawn_run_is_as_large_as_asked_and_reads_like_one(tmp_path: Path) -> None:
    SyntheticRun(tmp_path / "run", TINY).write()
    directory = RunDirectory(tmp_path / "run")
    with ArchiveReader(directory.archive) as archive:
        assert len(archive.every(TaskRow)) == 11 * 2 * 3
        assert len(archive.every(AttemptRow)) == 11 * 2 * 3 * 2
    assert directory.config().run.steps == len(directory.metrics()) == 11
    assert [life.died for life in lives(tmp_path / "run") if life.parents] == [None, None]


def test_every_view_is_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench_watch(TINY, 1, tmp_path / "run", as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["view"] for row in found["results"]] == [name for name, _ in views(TINY)]
    assert found["settings"]["attempts"] == 132
    assert found["settings"]["archive_mb"] > 0


searches = pytest.mark.parametrize(
    "wanted",
    [
        TaskQuery(),
        TaskQuery(status="refused"),
        TaskQuery(kind="code_i", teacher="T1"),
        TaskQuery(student="S1", least=0.5),
        TaskQuery(nodes=20),
        TaskQuery(status="refused", nodes=1),
        TaskQuery(first=3, last=9, novel=True, status=None),
    ],
)


@searches
def test_searches_read_no_table_of_texts(tmp_path: Path, wanted: TaskQuery) -> None:
    """Reading the texts of a long run takes seconds, so they are read for the rows of one page only, by their ids."""
    SyntheticRun(tmp_path / "run", TINY).write()
    asked: list[str] = []
    with ArchiveReader(RunDirectory(tmp_path / "run").archive) as archive:
        archive.connection.set_trace_callback(asked.append)
        count(archive, wanted)
        cells(archive)
        for sort in get_args(Sort):
            find(archive, wanted, sort, descending=True, limit=5, offset=0)
        archive.connection.set_trace_callback(None)
        plans = [row[3] for statement in asked for row in archive.select(f"EXPLAIN QUERY PLAN {statement}")]
    scanned = {plan.split()[1] for plan in plans if plan.startswith("SCAN")}
    assert scanned <= {"listing", "tallies", "matches"}
    if wanted.teacher or wanted.student:
        assert any("listing_by_match" in plan for plan in plans)


def by_hand(archive: ArchiveReader, wanted: TaskQuery) -> set[str]:
    """The ids of the proposals that a filter asks for, from the rows themselves."""
    matches = {row.id: row for row in archive.every(MatchRow)}
    tasks = {row.id: row for row in archive.every(TaskRow)}
    measures = {row.task: row for row in archive.every(MeasureRow)}
    found: set[str] = set()
    for row in archive.every(ProposalRow):
        match = matches[row.match]
        task = tasks.get(row.id)
        asked = [
            wanted.kind in (None, row.kind),
            wanted.teacher in (None, match.teacher),
            wanted.student in (None, match.student),
            wanted.first is None or row.step >= wanted.first,
            wanted.last is None or row.step <= wanted.last,
            row.status != "valid" if wanted.status == "refused" else wanted.status in (None, row.status),
            wanted.least is None or (task is not None and task.rho is not None and task.rho >= wanted.least),
            wanted.novel is None or (task is not None and task.novel is wanted.novel),
            wanted.nodes is None or (row.id in measures and measures[row.id].reached_nodes >= wanted.nodes),
        ]
        if all(asked):
            found.add(row.id)
    return found


@searches
def test_searches_find_what_the_rows_say(tmp_path: Path, wanted: TaskQuery) -> None:
    SyntheticRun(tmp_path / "run", TINY).write()
    with ArchiveReader(RunDirectory(tmp_path / "run").archive) as archive:
        expected = by_hand(archive, wanted)
        assert count(archive, wanted) == len(expected)
        for sort in get_args(Sort):
            found = find(archive, wanted, sort, descending=False, limit=1000, offset=0)
            assert {line.id for line in found} == expected
            assert len(found) == len(expected)
