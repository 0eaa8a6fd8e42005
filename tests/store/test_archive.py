"""The archive: a step is there as a whole or not at all, and what is read is what was written."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.records import Pair, Task
from redqueen.store.archive import TABLES, columns
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import (
    AttemptRow,
    ChampionRow,
    EvaluationRow,
    MatchRow,
    MeasureRow,
    MemberRow,
    ProbeRow,
    ProposalRow,
    ReplacementRow,
    Row,
    StandingRow,
    TaskRow,
)
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunError


def member(name: str, step: int, parents: tuple[str, ...] = ()) -> MemberRow:
    return MemberRow(name=name, role="student", step=step, parents=parents, operator="init")


def match(name: str, step: int) -> MatchRow:
    return MatchRow(
        id=name, step=step, teacher="T0", student="S0", score=0.5, outcome="draw",
        teacher_mu=25.0, teacher_sigma=8.0, student_mu=24.0, student_sigma=7.0,
    )  # fmt: skip


def proposal(name: str, step: int) -> ProposalRow:
    return ProposalRow(
        id=name, step=step, match=name, teacher="T0", kind="code_o", prompt="", reference_ids=("seed-0-code_o",),
        text="", tokens=1, finish_reason="stop", status="valid", output="", detail="", cpu_ms=0.0, reward=1.0,
    )  # fmt: skip


def task(name: str, step: int) -> TaskRow:
    return TaskRow(
        id=name, step=step, kind="code_f", author="T0", program="", pairs=(("1", "2"), ("'é'", "3")),
        message="", rho=0.5, novel=True,
    )  # fmt: skip


def attempt(name: str, number: int, step: int, text: str = "2") -> AttemptRow:
    return AttemptRow(
        task=name, number=number, step=step, student="S0", text=text, tokens=3, finish_reason="length",
        status="correct", output="", detail="", cpu_ms=0.5, reward=1.0,
    )  # fmt: skip


def replacement(child: str, step: int) -> ReplacementRow:
    return ReplacementRow(
        step=step, victim="S0", child=child, parents=("S1",), operator="dare",
        victim_fitness=0.1, victim_age=6, victim_games=5, tie=False, parent_fitness=(2.5, None), distance=None,
        tries=1,
    )  # fmt: skip


def standing(step: int) -> StandingRow:
    return StandingRow(step=step, member="S0", mu=25.0, sigma=8.0, games=1, fitness=None)


def champion(step: int) -> ChampionRow:
    return ChampionRow(
        name=f"S0@{step}", member="S0", role="student", step=step, mu=1.0, sigma=1.0, fitness=None
    )  # fmt: skip


def probe(step: int) -> ProbeRow:
    return ProbeRow(
        step=step, member="S0", task="probe", text="1", tokens=1, status="correct", output="", detail=""
    )  # fmt: skip


def evaluation(step: int) -> EvaluationRow:
    return EvaluationRow(
        step=step,
        member="S0",
        benchmark="reserved",
        problem="p",
        text="1",
        status="wrong",
        tokens=1,
        cut_off=False,
    )


def measure(step: int) -> MeasureRow:
    return MeasureRow(
        task=f"{step}", step=step, written_depth=6, written_cyclomatic=2, written_lines=5, written_variables=3,
        written_nodes=30, written_node_types=12, reached_depth=6, reached_cyclomatic=2, reached_lines=4,
        reached_variables=2, reached_nodes=25, reached_node_types=11, input_size=2.5, output_size=1.0,
        signature="int -> int", shape="ab", paths="Ab-_ cdef", functions=".append len", identity="cd", repeated=False,
        new_shape=True, new_paths=1, typed_inputs=20, behaviour="ef", distinct_outputs=7, same_output_rate=0.05,
        echo=None,
    )  # fmt: skip


def everything(step: int) -> list[Row]:
    name = f"{step}"
    return [
        member(f"S{step}", step), match(name, step), proposal(name, step), task(name, step), attempt(name, 0, step),
        replacement(f"S{step}", step), standing(step), champion(step), probe(step), evaluation(step), measure(step),
    ]  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with Archive(tmp_path / "run.sqlite") as opened:
        yield opened


def others(step: int) -> list[Row]:
    """More proposals of the match: solved otherwise, without a solve rate, refused, and withdrawn after attempts."""
    solved, unrated, refused, withdrawn = (f"{step}.{name}" for name in ("solved", "unrated", "refused", "withdrawn"))
    match_id = f"{step}"
    return [
        replace(proposal(solved, step), match=match_id),
        replace(task(solved, step), rho=0.25, novel=False),
        replace(measure(step), task=solved, reached_nodes=7),
        replace(proposal(unrated, step), match=match_id, reward=None),
        replace(task(unrated, step), rho=None),
        replace(proposal(refused, step), match=match_id, status="error"),
        replace(proposal(withdrawn, step), match=match_id, status="nondeterministic"),
        attempt(withdrawn, 0, step),
    ]


NAMES = [table.name for table in TABLES]


def count(archive: Archive) -> dict[str, int]:
    return {name: archive.connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in NAMES}


def test_a_new_archive_has_every_table_and_nothing_in_them(archive: Archive) -> None:
    assert count(archive) == dict.fromkeys(NAMES, 0)


def test_what_is_written_can_be_read_with_plain_sqlite(archive: Archive, tmp_path: Path) -> None:
    text = "def f(x):\n    return 'é\0\U0001f451'"
    archive.write([member("S1", 0, ("S0", "S7")), attempt("0.0.code_o.1", 3, 0, text)])
    with sqlite3.connect(f"file:{tmp_path / 'run.sqlite'}?mode=ro", uri=True) as reader:
        assert json.loads(reader.execute("SELECT parents FROM members").fetchone()[0]) == ["S0", "S7"]
        assert reader.execute("SELECT text, number, reward FROM attempts").fetchall() == [(text, 3, 1.0)]


def test_the_reader_returns_what_was_written_by_step(archive: Archive, tmp_path: Path) -> None:
    for step in (1, 0):
        archive.write(everything(step))
    with ArchiveReader(tmp_path / "run.sqlite") as reader:
        assert reader.every(MemberRow) == [member("S0", 0), member("S1", 1)]
        assert reader.every(MatchRow) == [match("0", 0), match("1", 1)]
        assert reader.every(ProposalRow, 1) == [proposal("1", 1)]
        assert reader.every(TaskRow, 0) == [task("0", 0)]
        assert reader.every(AttemptRow) == [attempt("0", 0, 0), attempt("1", 0, 1)]
        assert reader.every(ReplacementRow) == [replacement("S0", 0), replacement("S1", 1)]
        assert reader.every(StandingRow) == [standing(0), standing(1)]
        assert reader.every(ChampionRow) == [champion(0), champion(1)]
        assert reader.every(ProbeRow, 1) == [probe(1)]
        assert reader.every(MeasureRow) == [measure(0), measure(1)]
        assert reader.every(AttemptRow, 7) == []


def test_a_task_row_is_the_task_that_was_played() -> None:
    pairs = (Pair("1", "2"), Pair("'é'", "3"))
    assert task("0.0", 3).task() == Task(
        id="0.0", kind="code_f", author="T0", step=3, program="", pairs=pairs, message=""
    )


def test_the_reader_cannot_write(archive: Archive, tmp_path: Path) -> None:
    archive.write([match("0.0", 0)])
    with (
        ArchiveReader(tmp_path / "run.sqlite") as reader,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        reader.connection.execute("DELETE FROM matches")


def test_an_archive_of_another_layout_is_refused_in_one_line(archive: Archive, tmp_path: Path) -> None:
    archive.connection.execute("ALTER TABLE replacements DROP COLUMN tries")
    for opened in (Archive, ArchiveReader):
        with pytest.raises(RunError, match=r"another version of Red Queen .*'replacements'.* start a new run") as error:
            opened(tmp_path / "run.sqlite")
        assert "\n" not in str(error.value)


def test_no_archive_and_no_database_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"has no archive \(run.sqlite\): nothing was trained here"):
        ArchiveReader(tmp_path / "run.sqlite")
    (tmp_path / "run.sqlite").write_text("this is no database, however long it may be" * 99)
    with pytest.raises(RunError, match=r"cannot read .*run.sqlite: file is not a database"):
        ArchiveReader(tmp_path / "run.sqlite")


def test_an_archive_without_the_file_of_its_newest_rows_says_so(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as connection:
        # A database whose tables are in the log, which was not copied.
        connection.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(RunError, match=r"run.sqlite has no tables: copy run.sqlite-wal too"):
        ArchiveReader(tmp_path / "run.sqlite")


def test_types_say_what_may_be_null(archive: Archive) -> None:
    nullable: set[tuple[str, str]] = set()
    for table in TABLES:
        nullable |= {(table.name, column.name) for column in columns(table.row) if column.nullable}
    stored: set[tuple[str, str]] = set()
    for name in NAMES:
        for _, column, _, required, _, _ in archive.connection.execute(f"PRAGMA table_info({name})"):
            if not required:
                stored.add((name, column))
    assert stored == nullable
    assert ("attempts", "reward") in nullable
    assert ("attempts", "text") not in nullable


def test_missing_pay_is_null(archive: Archive) -> None:
    archive.write([replace(attempt("t", 0, 0), reward=None), replace(match("0.0", 0), score=None)])
    assert archive.connection.execute("SELECT reward FROM attempts").fetchone() == (None,)
    assert archive.connection.execute("SELECT score, teacher_mu FROM matches").fetchone() == (None, 25.0)


@pytest.mark.parametrize(
    "rows",
    [
        [match("0.1", 0), match("0.0", 0)],
        [match("0.1", 0), attempt("t", 0, 0), attempt("t", 0, 0)],
        [match("0.1", 0), replace(replacement("S9", 0), operator=None)],  # type: ignore[arg-type]
        [member("S5", 0), replace(match("0.1", 0), step=["no number"])],  # type: ignore[arg-type]
    ],
    ids=["known id", "doubled key", "missing value", "value of another type"],
)
def test_a_step_that_cannot_be_written_whole_leaves_nothing(archive: Archive, rows: list[Row]) -> None:
    archive.write([match("0.0", 0)])
    before = count(archive)
    with pytest.raises(sqlite3.Error):
        archive.write(rows)
    assert count(archive) == before
    archive.write([match("0.1", 0)])


def test_rewinding_drops_all_later_steps_in_every_table(archive: Archive) -> None:
    for step in range(5):
        archive.write(everything(step))
    archive.rewind(2)
    for name in NAMES:
        steps = [row[0] for row in archive.connection.execute(f"SELECT step FROM {name} ORDER BY step")]
        assert steps == [0, 1, 2], name


def derived_again(archive: Archive) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """The listing and the tallies as the other tables have them."""
    listing = archive.connection.execute(
        "SELECT t.rho, c.reached_nodes, t.novel, p.reward, p.tokens, c.reached_lines, c.reached_depth, p.status, "
        "p.kind, p.match, p.step, p.id FROM proposals p LEFT JOIN tasks t ON t.id = p.id "
        "LEFT JOIN measures c ON c.task = p.id ORDER BY p.rowid"
    )
    tallies = archive.connection.execute(
        "SELECT p.match, p.step, p.kind, p.status, COUNT(*), COUNT(t.rho), TOTAL(t.rho) FROM proposals p "
        "LEFT JOIN tasks t ON t.id = p.id GROUP BY p.match, p.kind, p.status ORDER BY p.match, p.kind, p.status"
    )
    return listing.fetchall(), tallies.fetchall()


def stored(archive: Archive) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    listing = archive.connection.execute("SELECT * FROM listing ORDER BY rowid")
    tallies = archive.connection.execute("SELECT * FROM tallies ORDER BY match, kind, status")
    return listing.fetchall(), tallies.fetchall()


def test_the_listing_and_the_tallies_follow_the_other_tables_also_after_a_rewind(archive: Archive) -> None:
    steps = [[*everything(step), *others(step)] for step in range(4)]
    for rows in steps:
        archive.write(rows)
    whole = stored(archive)
    assert whole == derived_again(archive)
    assert whole[0][0] == (0.5, 25, 1, 1.0, 1, 4, 6, "valid", "code_o", "0", 0, "0")
    assert [row[2:] for row in whole[1] if row[0] == "0"] == [
        ("code_o", "error", 1, 0, 0.0),
        ("code_o", "nondeterministic", 1, 0, 0.0),
        ("code_o", "valid", 3, 2, 0.75),
    ]
    archive.rewind(1)
    assert stored(archive) == derived_again(archive)
    assert {row[10] for row in stored(archive)[0]} == {0, 1}
    for rows in steps[2:]:
        archive.write(rows)
    assert stored(archive) == whole


def test_a_step_that_is_refused_leaves_no_listing(archive: Archive) -> None:
    archive.write(everything(1))
    with pytest.raises(sqlite3.Error):
        archive.write([proposal("2", 2), match("1", 2)])
    assert stored(archive) == derived_again(archive)
    assert len(stored(archive)[0]) == 1


def test_an_archive_from_before_the_listing_is_refused_with_both_numbers(archive: Archive, tmp_path: Path) -> None:
    for table in ("listing", "tallies"):
        archive.connection.execute(f"DROP TABLE {table}")
    archive.connection.execute("PRAGMA user_version = 3")
    for opened in (Archive, ArchiveReader):
        with pytest.raises(RunError, match=r"another version of Red Queen \(layout 3, not 5\): use that version, or"):
            opened(tmp_path / "run.sqlite")


def test_a_rewound_step_can_be_written_again(archive: Archive) -> None:
    rows = [member("S4", 2), match("2.0", 2), replacement("S4", 2)]
    archive.write(rows)
    archive.rewind(1)
    archive.write(rows)
    assert count(archive)["matches"] == count(archive)["members"] == 1


def test_the_first_population_survives_a_rewind_to_the_start(archive: Archive) -> None:
    archive.write([member("S0", 0), match("1.0", 1)])
    archive.rewind(0)
    assert count(archive) == {**dict.fromkeys(NAMES, 0), "members": 1}


def test_opening_again_keeps_everything(tmp_path: Path) -> None:
    with Archive(tmp_path / "a") as first:
        first.write([match("0.0", 0)])
    with Archive(tmp_path / "a") as again:
        assert count(again)["matches"] == 1


def test_someone_may_read_while_the_run_writes(archive: Archive, tmp_path: Path) -> None:
    archive.write([match("0.0", 0)])
    reader = sqlite3.connect(f"file:{tmp_path / 'run.sqlite'}?mode=ro", uri=True)
    rows = reader.execute("SELECT id FROM matches")
    archive.write([match("0.1", 0)])
    assert rows.fetchall() == [("0.0",)]
    reader.close()


def test_a_kill_in_the_middle_of_a_step_leaves_the_steps_before_it(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from redqueen.store.archive import writer
from redqueen.store.archive.rows import MatchRow
def row(name, step):
    ratings = dict(teacher_mu=1.0, teacher_sigma=1.0, student_mu=1.0, student_sigma=1.0)
    return MatchRow(id=name, step=step, teacher="T", student="S", score=None, outcome=None, **ratings)
archive = writer.Archive(Path({str(tmp_path / "a")!r}))
archive.write([row("0.0", 0)])
whole = writer.values_of
def killed(row):
    if row.id == "1.2999":
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(row)
writer.values_of = killed
archive.write([row(f"1.{{n}}", 1) for n in range(3000)])
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    with Archive(tmp_path / "a") as after:
        assert after.connection.execute("SELECT id FROM matches").fetchall() == [("0.0",)]


def test_an_archive_that_was_closed_is_one_file_and_reading_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with Archive(path) as archive:
        archive.write([match("0.0", 1)])
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.sqlite"]
    with ArchiveReader(path) as reader:
        assert len(reader.every(MatchRow)) == 1
        assert [entry.name for entry in tmp_path.iterdir()] == ["run.sqlite"]


def test_a_read_only_folder_of_a_killed_run_can_be_read_with_its_newest_rows(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write([match("0.0", 1)])
    # The archive is open, so its rows are in the log. To root every folder seems writable.
    monkeypatch.setattr("redqueen.store.archive.reader.os.access", lambda *_: False)
    before = sorted(entry.name for entry in tmp_path.iterdir())
    with ArchiveReader(tmp_path / "run.sqlite") as reader:
        assert len(reader.every(MatchRow)) == 1
        assert reader.copy is not None
        scratch = Path(reader.copy.name)
    assert not scratch.exists()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == before


def test_an_archive_can_be_closed_while_somebody_reads_and_twice(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "run.sqlite")
    archive.write([match("0.0", 1)])
    reader = sqlite3.connect(tmp_path / "run.sqlite")
    rows = reader.execute("SELECT id FROM matches")
    archive.close()
    archive.close()
    assert rows.fetchall() == [("0.0",)]
    reader.close()
