"""Damaged and hostile runs: each is refused with a reason or shown, hides no other, and nothing hangs."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from redqueen.extras.page.app import VIEWS
from redqueen.store.archive import reader
from tests.cli.running import redqueen
from tests.extras.page.conftest import page
from tests.thinned import thinned

pytestmark = pytest.mark.integration

Damage = Callable[[Path], object]
MARKUP = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
TASK = "1.0.code_o.0"
FAMILY = 'UPDATE members SET parents = \'["T0", "T1"]\''
FILES = ("config.json", "environment.json", "metrics.jsonl", "evaluation.json", "run.sqlite")
DEEP = "[" * 100_000 + "]" * 100_000


def sql(*statements: str) -> Damage:
    def damage(run: Path) -> None:
        connection = sqlite3.connect(run / "run.sqlite", isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    return damage


def text(name: str, content: str) -> Damage:
    return lambda run: (run / name).write_text(content)


def last_line(**changes: Any) -> Damage:
    """Changes the newest line of metrics.jsonl."""

    def damage(run: Path) -> None:
        lines = (run / "metrics.jsonl").read_text().splitlines()
        lines[-1] = json.dumps({**json.loads(lines[-1]), **changes})
        (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")

    return damage


def setting(section: str, key: str, value: object) -> Damage:
    def damage(run: Path) -> None:
        data = json.loads((run / "config.json").read_text())
        data[section][key] = value
        (run / "config.json").write_text(json.dumps(data))

    return damage


def instead(name: str, make: Callable[[Path], object]) -> Damage:
    """Puts something else in a file's place."""

    def damage(run: Path) -> None:
        (run / name).unlink(missing_ok=True)
        make(run / name)

    return damage


def all_null(run: Path) -> None:
    """Empties every column that may be empty."""
    connection = sqlite3.connect(run / "run.sqlite", isolation_level=None)
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for column in connection.execute(f"PRAGMA table_info({table})").fetchall():
            if not column[3] and not column[5]:
                connection.execute(f"UPDATE {table} SET {column[1]} = NULL")
    connection.close()


def emptied(run: Path) -> None:
    connection = sqlite3.connect(run / "run.sqlite", isolation_level=None)
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        connection.execute(f"DELETE FROM {table}")
    connection.close()


def flipped(seed: int) -> Damage:
    """Changes 1, 20 or 400 bytes of the archive, with its head or without."""

    def damage(run: Path) -> None:
        rng = random.Random(seed)
        data = bytearray((run / "run.sqlite").read_bytes())
        for _ in range(rng.choice((1, 20, 400))):
            data[rng.randrange(100 if seed % 3 else 0, len(data))] = rng.randrange(256)
        (run / "run.sqlite").write_bytes(data)

    return damage


def bad_schema(run: Path) -> None:
    """Writes a letter into the schema that is no UTF-8."""
    data = (run / "run.sqlite").read_bytes()
    (run / "run.sqlite").write_bytes(data.replace(b"CREATE TABLE tasks", b"CREATE TABLE t\xff\xfeks"))


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
DAMAGES: dict[str, Damage] = {
    "markup": sql(
        f"UPDATE proposals SET detail = '{MARKUP}'",
        f"UPDATE attempts SET text = '{MARKUP}'",
        f"UPDATE members SET name = name || '{MARKUP}'",
        f"UPDATE tasks SET program = '{MARKUP}'",
    ),
    "infinite numbers": sql(
        "UPDATE standings SET mu = 9e999, sigma = -9e999, fitness = 9e999",
        "UPDATE proposals SET reward = 9e999",
        "UPDATE listing SET reward = 9e999, rho = -9e999",
        "UPDATE tallies SET rho_sum = 9e999",
        "UPDATE matches SET teacher_mu = 9e999, score = -9e999",
        "UPDATE measures SET input_size = 9e999",
    ),
    "wrong types": sql(
        "UPDATE proposals SET step = 'abc', reward = 'zz', text = x'ff00fe'",
        "UPDATE tasks SET pairs = 'not json'",
        "UPDATE members SET step = 'x'",
    ),
    "other types": sql(
        "UPDATE matches SET teacher_mu = 'x', student = x'00ff'", "UPDATE standings SET fitness = 'high', mu = 'x'"
    ),
    "pairs of no pairs": sql("UPDATE tasks SET pairs = '[[1], {}, null]'"),
    "deep JSON in the archive": sql(f"UPDATE tasks SET pairs = '{DEEP}'"),
    "a huge text": sql("UPDATE proposals SET text = hex(zeroblob(20000000)) WHERE rowid = 1"),
    "a view": sql(
        "ALTER TABLE proposals RENAME TO p2", f"CREATE VIEW proposals AS {ENDLESS} SELECT p2.* FROM p2, n"
    ),
    "a virtual table": sql(
        "DROP TABLE tallies",
        "CREATE VIRTUAL TABLE tallies USING fts5(match, step, kind, status, proposals, rated, rho_sum)",
    ),
    "a generated column": sql("ALTER TABLE tallies ADD COLUMN more GENERATED ALWAYS AS (hex(zeroblob(500000000)))"),
    "triggers": sql("CREATE TRIGGER t AFTER INSERT ON proposals BEGIN DELETE FROM proposals; END"),
    "nulls": all_null,
    "empty tables": emptied,
    "a family in a circle": sql("UPDATE replacements SET parents = json_array(child)", FAMILY),
    "a truncated archive": lambda run: os.truncate(run / "run.sqlite", 50_000),
    "an empty archive": lambda run: os.truncate(run / "run.sqlite", 0),
    "no archive": lambda run: (run / "run.sqlite").unlink(),
    "bad letters in the schema": bad_schema,
    "NaN in the metrics": last_line(solve_rate=float("nan"), seconds={"total": float("inf")}),
    "NaN everywhere": last_line(members={"S0": {"role": "student", "mu": float("nan"), "sigma": float("nan")}}),
    "numbers beyond floats": lambda run: (run / "metrics.jsonl").write_text('{"step": 1, "solve_rate": 1e999}\n'),
    "metrics of other types": last_line(seconds=3, members=[1]),
    "a step that is no number": last_line(step="x"),
    "a line with its step only": text("metrics.jsonl", '{"step": 1}\n'),
    "deep metrics": text("metrics.jsonl", f'{{"step": 1, "a": {DEEP}}}\n'),
    "binary metrics": lambda run: (run / "metrics.jsonl").write_bytes(random.Random(1).randbytes(10_000) + b"\n"),
    "a number of sessions": text("environment.json", '{"resumed": [1, 2], "isolation": {"a": 1}}'),
    "sessions that are a text": text("environment.json", '{"resumed": "abc"}'),
    "deep configuration": text("config.json", "[" * 200_000),
    "a configuration that is a list": text("config.json", "[]"),
    "a number of 400 digits": setting("run", "steps", int("9" * 400)),
    "a number of 5,000 digits": text("config.json", f'{{"run": {{"steps": {"9" * 5000}}}}}'),
    "a rate that is no number": setting("learning", "lr", float("nan")),
    "a configuration of other bytes": lambda run: (run / "config.json").write_bytes(b"\xff\xfe{}"),
    "half an evaluation": text("evaluation.json", '{"a": [1'),
    "an evaluation of other types": text("evaluation.json", '[{"step": {}}]'),
    "an evaluation with NaN": text("evaluation.json", '{"rows": [NaN], "columns": [Infinity]}'),
    "a name of markup": lambda run: run.rename(run.with_name("bad <b>'\"&amp;")),
    "a folder for an archive": instead("run.sqlite", Path.mkdir),
    "a folder for a configuration": instead("config.json", Path.mkdir),
    **{
        f"a pipe for {name}": instead(name, os.mkfifo)
        for name in (*FILES, "run.sqlite-wal")
    },
    **{
        f"no end of {name}": instead(name, lambda path: path.symlink_to("/dev/zero"))
        for name in FILES
    },
    **{f"flipped bytes {seed}": flipped(seed) for seed in range(12)},
}  # fmt: skip


def refuse_constants(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.parametrize("damage", thinned(DAMAGES, 5))
def test_a_damaged_run_gives_reasons_and_hides_no_other(
    watched: Path, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "QUERY_S", 1.0)
    folder = tmp_path / "runs"
    shutil.copytree(watched / "first", folder / "good")
    DAMAGES[damage](Path(shutil.copytree(watched / "first", folder / "bad")))
    client = page(folder)
    listed = client.get("/api/runs")
    assert listed.status_code == 200
    runs = json.loads(listed.text, parse_constant=refuse_constants)["runs"]
    assert runs[-1]["name"] == "good"
    assert runs[-1]["course"] == "finished"
    for name in (run["name"] for run in runs):
        for view in VIEWS:
            answer = client.get(f"/api/{view}", params={"run": name, "name": "T0", "id": TASK, "status": "any"})
            body = json.loads(answer.text, parse_constant=refuse_constants)
            assert answer.status_code in ((200, 404) if name == "good" else (200, 400, 404)), answer.text
            assert answer.status_code == 200 or "\n" not in body["error"]
    bad = next(path for path in folder.iterdir() if path.name != "good")
    out = str(tmp_path / "tasks.jsonl")
    for command in (
        ("report", str(bad), "--markdown"),
        ("show", str(bad), "--worst"),
        ("lineage", str(bad)),
        ("tasks", "export", str(bad), "--out", out),
        ("compare", str(bad), str(folder / "good"), "--json"),
    ):
        done = redqueen(*command)
        assert done.returncode in (0, 2)
        if done.returncode:
            assert done.stderr.startswith("redqueen: ")
            assert done.stderr.count("\n") == 1
        assert (done.stdout + done.stderr).replace("\n", "").isprintable()
