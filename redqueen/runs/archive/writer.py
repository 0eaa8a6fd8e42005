"""The archive: every match, proposal, task, attempt and birth of a run, in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

_SCHEMA = """
CREATE TABLE IF NOT EXISTS members (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, step INTEGER NOT NULL, parents TEXT NOT NULL, operator TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS matches (
    id TEXT PRIMARY KEY, step INTEGER NOT NULL, teacher TEXT NOT NULL, student TEXT NOT NULL,
    score REAL, outcome TEXT, teacher_mu REAL, teacher_sigma REAL, student_mu REAL, student_sigma REAL
);
CREATE TABLE IF NOT EXISTS proposals (
    id TEXT PRIMARY KEY, step INTEGER NOT NULL, match TEXT NOT NULL REFERENCES matches (id), teacher TEXT NOT NULL,
    kind TEXT NOT NULL, prompt TEXT NOT NULL, text TEXT NOT NULL, tokens INTEGER NOT NULL,
    status TEXT NOT NULL, output TEXT NOT NULL, detail TEXT NOT NULL, cpu_ms REAL NOT NULL, reward REAL
);
CREATE TABLE IF NOT EXISTS tasks (
    id TEXT PRIMARY KEY REFERENCES proposals (id), step INTEGER NOT NULL, kind TEXT NOT NULL, author TEXT NOT NULL,
    program TEXT NOT NULL, pairs TEXT NOT NULL, message TEXT NOT NULL, rho REAL, novel INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS attempts (
    task TEXT NOT NULL REFERENCES tasks (id), number INTEGER NOT NULL, step INTEGER NOT NULL, student TEXT NOT NULL,
    text TEXT NOT NULL, tokens INTEGER NOT NULL, status TEXT NOT NULL, output TEXT NOT NULL, detail TEXT NOT NULL,
    cpu_ms REAL NOT NULL, reward REAL, PRIMARY KEY (task, number)
);
CREATE TABLE IF NOT EXISTS replacements (
    step INTEGER NOT NULL, victim TEXT NOT NULL, child TEXT PRIMARY KEY, parents TEXT NOT NULL, operator TEXT NOT NULL,
    victim_fitness REAL, parent_fitness TEXT NOT NULL, distance REAL, tries INTEGER
);
CREATE TABLE IF NOT EXISTS standings (
    step INTEGER NOT NULL, member TEXT NOT NULL, mu REAL NOT NULL, sigma REAL NOT NULL, games INTEGER NOT NULL,
    fitness REAL, PRIMARY KEY (step, member)
);
CREATE TABLE IF NOT EXISTS champions (
    name TEXT PRIMARY KEY, member TEXT NOT NULL, role TEXT NOT NULL, step INTEGER NOT NULL,
    mu REAL NOT NULL, sigma REAL NOT NULL, fitness REAL
);
CREATE TABLE IF NOT EXISTS probes (
    step INTEGER NOT NULL, member TEXT NOT NULL, task TEXT NOT NULL, text TEXT NOT NULL, tokens INTEGER NOT NULL,
    status TEXT NOT NULL, output TEXT NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (step, member, task)
);
CREATE INDEX IF NOT EXISTS attempts_by_step ON attempts (step);
CREATE INDEX IF NOT EXISTS proposals_by_step ON proposals (step);
"""
TABLES = ("members", "matches", "proposals", "tasks", "attempts", "replacements", "standings", "champions", "probes")
# Columns that came later: a run begun before them has the table without, and goes on with them.
_LATER = (("replacements", "distance", "REAL"), ("replacements", "tries", "INTEGER"))
Row = Mapping[str, object]


class Archive:
    """Rows are written a step at a time, in one transaction: a step is there as a whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.executescript(_SCHEMA)
        for table, column, kind in _LATER:
            if column not in {row[1] for row in self.connection.execute(f"PRAGMA table_info({table})")}:
                self.connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def write(self, rows: Mapping[str, Iterable[Row]]) -> None:
        """Inserts rows by table. Lists are stored as JSON. Raises sqlite3.Error, with nothing written."""
        with self.connection:
            for table in TABLES:
                for row in rows.get(table, ()):
                    names = ", ".join(row)
                    marks = ", ".join("?" for _ in row)
                    values = [json.dumps(v) if isinstance(v, list) else v for v in row.values()]
                    self.connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)

    def rewind(self, step: int) -> None:
        """Drops what was recorded for `step` and later: a resumed run plays those steps again.

        Children of the replacements at the end of a step belong to that step.
        """
        with self.connection:
            for table in TABLES:
                self.connection.execute(f"DELETE FROM {table} WHERE step >= ?", (step,))
