"""The archive: a step is there as a whole or not at all."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from redqueen.runs.archive.writer import TABLES, Archive


def member(name: str, step: int, parents: list[str] | None = None) -> dict[str, object]:
    return {"name": name, "role": "student", "step": step, "parents": parents or [], "operator": "init"}


def match(name: str, step: int) -> dict[str, object]:
    return {"id": name, "step": step, "teacher": "T0", "student": "S0", "score": 0.5, "outcome": "draw"}


def attempt(task: str, number: int, step: int, text: str = "2") -> dict[str, object]:
    return {
        "task": task, "number": number, "step": step, "student": "S0", "text": text, "tokens": 3,
        "status": "correct", "output": "", "detail": "", "cpu_ms": 0.5, "reward": 1.0,
    }  # fmt: skip


def replacement(child: str, step: int) -> dict[str, object]:
    return {
        "step": step, "victim": "S0", "child": child, "parents": ["S1"], "operator": "dare",
        "victim_fitness": 0.1, "parent_fitness": [2.5],
    }  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with Archive(tmp_path / "run.sqlite") as opened:
        yield opened


def count(archive: Archive) -> dict[str, int]:
    return {t: archive.connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in TABLES}


def test_a_new_archive_has_every_table_and_nothing_in_them(archive: Archive) -> None:
    assert count(archive) == dict.fromkeys(TABLES, 0)


def test_what_is_written_can_be_read_by_anybody_with_sqlite(archive: Archive, tmp_path: Path) -> None:
    text = "def f(x):\n    return 'é\0\U0001f451'"
    archive.write({"members": [member("S1", -1, ["S0", "S7"])], "attempts": [attempt("0.0.code_o.1", 3, 0, text)]})
    with sqlite3.connect(f"file:{tmp_path / 'run.sqlite'}?mode=ro", uri=True) as reader:
        assert json.loads(reader.execute("SELECT parents FROM members").fetchone()[0]) == ["S0", "S7"]
        assert reader.execute("SELECT text, number, reward FROM attempts").fetchall() == [(text, 3, 1.0)]


def test_missing_pay_is_null(archive: Archive) -> None:
    archive.write(
        {"attempts": [{**attempt("t", 0, 0), "reward": None}], "matches": [{**match("0.0", 0), "score": None}]}
    )
    assert archive.connection.execute("SELECT reward FROM attempts").fetchone() == (None,)
    assert archive.connection.execute("SELECT score, teacher_mu FROM matches").fetchone() == (None, None)


@pytest.mark.parametrize(
    "rows",
    [
        {"matches": [match("0.1", 0), match("0.0", 0)]},
        {"matches": [match("0.1", 0)], "attempts": [attempt("t", 0, 0), attempt("t", 0, 0)]},
        {"matches": [match("0.1", 0)], "replacements": [{"step": 0, "child": "S9"}]},
        {"members": [member("S5", 0)], "matches": [{**match("0.1", 0), "no_such_column": 1}]},
    ],
    ids=["known id", "doubled key", "missing columns", "unknown column"],
)
def test_a_step_that_cannot_be_written_whole_leaves_nothing(archive: Archive, rows: dict) -> None:
    archive.write({"matches": [match("0.0", 0)]})
    before = count(archive)
    with pytest.raises(sqlite3.Error):
        archive.write(rows)
    assert count(archive) == before
    archive.write({"matches": [match("0.1", 0)]})


def test_rewinding_drops_a_step_and_all_later_ones_in_every_table(archive: Archive) -> None:
    for step in range(-1, 4):
        name = f"{step}"
        proposal = {
            "id": name, "step": step, "match": name, "teacher": "T0", "kind": "code_o", "prompt": "", "text": "",
            "tokens": 1, "status": "valid", "output": "", "detail": "", "cpu_ms": 0, "reward": 1,
        }  # fmt: skip
        task = {
            "id": name, "step": step, "kind": "code_o", "author": "T0", "program": "", "pairs": [["1", "2"]],
            "message": "", "rho": 0.5, "novel": True,
        }  # fmt: skip
        archive.write({
            "members": [member(f"S{step}", step)], "matches": [match(name, step)], "proposals": [proposal],
            "tasks": [task], "attempts": [attempt(name, 0, step)], "replacements": [replacement(name, step)],
            "standings": [{"step": step, "member": "S0", "mu": 25, "sigma": 8, "games": 1, "fitness": None}],
            "champions": [{"name": f"S0@{step}", "member": "S0", "role": "student", "step": step, "mu": 1, "sigma": 1}],
            "probes": [{
                "step": step, "member": "S0", "task": "probe", "text": "1", "tokens": 1, "status": "correct",
                "output": "", "detail": "",
            }],
        })  # fmt: skip
    archive.rewind(2)
    for table in TABLES:
        steps = [row[0] for row in archive.connection.execute(f"SELECT step FROM {table} ORDER BY step")]
        assert steps == [-1, 0, 1], table


def test_a_rewound_step_can_be_written_again(archive: Archive) -> None:
    rows = {"members": [member("S4", 1)], "matches": [match("1.0", 1)], "replacements": [replacement("S4", 1)]}
    archive.write(rows)
    archive.rewind(1)
    archive.write(rows)
    assert count(archive)["matches"] == count(archive)["members"] == 1


def test_the_first_population_survives_a_rewind_to_the_start(archive: Archive) -> None:
    archive.write({"members": [member("S0", -1)], "matches": [match("0.0", 0)]})
    archive.rewind(0)
    assert count(archive) == {**dict.fromkeys(TABLES, 0), "members": 1}


def test_opening_again_keeps_everything(tmp_path: Path) -> None:
    with Archive(tmp_path / "a") as first:
        first.write({"matches": [match("0.0", 0)]})
    with Archive(tmp_path / "a") as again:
        assert count(again)["matches"] == 1


def test_someone_may_read_while_the_run_writes(archive: Archive, tmp_path: Path) -> None:
    archive.write({"matches": [match("0.0", 0)]})
    reader = sqlite3.connect(f"file:{tmp_path / 'run.sqlite'}?mode=ro", uri=True)
    rows = reader.execute("SELECT id FROM matches")
    archive.write({"matches": [match("0.1", 0)]})
    assert rows.fetchall() == [("0.0",)]
    reader.close()


def test_a_kill_in_the_middle_of_a_step_leaves_the_steps_before_it(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from redqueen.runs.archive.writer import Archive
def row(name, step):
    return {{"id": name, "step": step, "teacher": "T", "student": "S"}}
def half():
    for n in range(3000):
        yield row(f"1.{{n}}", 1)
    os.kill(os.getpid(), signal.SIGKILL)
archive = Archive(Path({str(tmp_path / "a")!r}))
archive.write({{"matches": [row("0.0", 0)]}})
archive.write({{"matches": half()}})
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    with Archive(tmp_path / "a") as after:
        assert after.connection.execute("SELECT id FROM matches").fetchall() == [("0.0",)]
