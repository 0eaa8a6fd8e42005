"""The archive: every match, proposal, task, attempt and birth of a run, in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from redqueen.runs.archive.rows import Row
from redqueen.runs.archive.schema import TABLES, check_layout, create_statements, insert_statement, values_of


class Archive:
    """Writes rows a step at a time, in one transaction: a step is stored as a whole or not at all."""

    def __init__(self, path: Path) -> None:
        """Opens the archive at `path`, or makes a new one.

        Raises RunError if another version of Red Queen wrote it, sqlite3.Error if it is no archive.
        """
        new = not path.exists()
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode = WAL")
        if not new:
            check_layout(self.connection, path)
        for statement in create_statements():
            self.connection.execute(statement)

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def write(self, rows: Iterable[Row]) -> None:
        """Inserts rows, each into its table, in order. Raises sqlite3.Error, with nothing written."""
        with self.connection:
            for row in rows:
                self.connection.execute(insert_statement(type(row)), values_of(row))

    def rewind(self, step: int) -> None:
        """Drops what was recorded for `step` and later: a resumed run plays those steps again.

        Children of the replacements at the end of a step belong to that step.
        """
        with self.connection:
            for table in TABLES:
                self.connection.execute(f"DELETE FROM {table.name} WHERE step >= ?", (step,))
