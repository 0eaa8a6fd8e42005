"""Reads a run's archive, also while the run writes to it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from redqueen.base.closing import Closing
from redqueen.store.archive import check_layout, key_column, row_of, select_statement
from redqueen.store.archive.rows import MeasureRow, Row, TaskRow
from redqueen.store.directory import RunError, saved_steps
from redqueen.store.files import check_archive

R = TypeVar("R", bound=Row)
QUERY_S = 20.0
"""CPU seconds that one question may take. A large archive takes a fraction of it; a file that was made to never answer
takes this."""
_VALUE_BYTES = 32 << 20
"""The largest text that is read: many times what any setting lets a member write."""
_INSTRUCTIONS = 100_000
"""SQLite looks at the time after so many of its instructions, a few milliseconds."""


class ArchiveReader(Closing):
    """Read-only access to one archive."""

    def __init__(self, path: Path) -> None:
        """Opens the archive. Raises RunError if there is none, if it is damaged or if another version wrote it."""
        check_archive(path, writes=False)
        if not path.exists():
            trained = any(saved_steps(path.parent / "checkpoints"))
            what = "put it back" if trained else "nothing was trained here"
            raise RunError(f"{path.parent} has no archive ({path.name}): {what}")
        self.path = path
        self._deadline = 0.0
        self.copy: TemporaryDirectory[str] | None = None
        try:
            self.connection = self._connect()
        except (sqlite3.Error, OSError) as error:
            raise _damaged(path, error) from error
        try:
            self._confine()
            check_layout(self.connection, path)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.close()
            raise _damaged(path, error) from error
        except RunError:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        """Opens the file so that reading writes nothing into the run's folder, which may be read-only."""
        log = self.path.with_name(f"{self.path.name}-wal")
        # Read-only by the URI: an analysis can never damage a run, and never makes an empty file by opening it.
        address = f"{self.path.resolve().as_uri()}?mode=ro"
        if not log.exists():
            # No process writes, so there is nothing to wait for. Without this, SQLite makes files of its own next to an
            # archive whose last writer was killed.
            return sqlite3.connect(f"{address}&immutable=1", uri=True)
        if os.access(self.path.parent, os.W_OK):
            return sqlite3.connect(address, uri=True)
        # The newest steps are in the log, and SQLite reads a log only where it can write next to it.
        self.copy = TemporaryDirectory(prefix="redqueen-")
        copied = Path(self.copy.name) / self.path.name
        shutil.copyfile(self.path, copied)
        shutil.copyfile(log, copied.with_name(log.name))
        return sqlite3.connect(f"{copied.as_uri()}?mode=ro", uri=True)

    def _confine(self) -> None:
        """Bounds what a file that was made on purpose can do to this process."""
        # Expressions in its schema may call nothing that has side effects, and no value or query is without an end.
        self.connection.execute("PRAGMA trusted_schema=OFF")
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
        self.connection.set_progress_handler(self._is_late, _INSTRUCTIONS)
        self._deadline = time.thread_time() + QUERY_S

    def _is_late(self) -> bool:
        return time.thread_time() > self._deadline

    def check_pages(self) -> None:
        """Raises RunError if a page of the file is damaged, as far as `QUERY_S` reaches: a large file takes longer."""
        self._deadline = time.thread_time() + QUERY_S
        try:
            ((found,),) = self.connection.execute("PRAGMA quick_check(1)").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise _damaged(self.path, error) from error
            return
        except sqlite3.DatabaseError as error:
            raise damaged_archive(self.path, error) from error
        if found != "ok":
            raise damaged_archive(self.path, found)

    def close(self) -> None:
        self.connection.close()
        if self.copy is not None:
            self.copy.cleanup()

    def every(self, row: type[R], step: int | None = None) -> list[R]:
        """Returns the rows of one table, those of `step` or of all steps: by step, and as written within a step."""
        # Every analysis of them gives the same numbers: `rowid` is the order of writing, which SQL does not promise
        # unless it is asked for.
        order = "ORDER BY step, rowid"
        return self.rows(row, f"1 {order}") if step is None else self.rows(row, f"step = ? {order}", [step])

    def measures_of_members(self) -> list[MeasureRow]:
        """Returns the measures of the tasks that members wrote, without those of champions, in order."""
        of_members = "task IN (SELECT id FROM tasks WHERE author IN (SELECT name FROM members))"
        return self.rows(MeasureRow, f"{of_members} ORDER BY step, rowid")

    def tasks_of_members(self) -> list[TaskRow]:
        """Returns the tasks that members wrote, without fixed ones and those of champions, in order."""
        return self.rows(TaskRow, "author IN (SELECT name FROM members) ORDER BY step, rowid")

    def rows(self, row: type[R], where: str, values: Sequence[object] = ()) -> list[R]:
        """Returns the rows of one table for which the SQL in `where` holds. Raises RunError if they are damaged."""
        stored = self.select(f"{select_statement(row)} WHERE {where}", values)
        try:
            return [row_of(row, record) for record in stored]
        except ValueError as error:
            raise _damaged(self.path, error) from error

    def one(self, row: type[R], key: str) -> R | None:
        """Returns the row of a table with this key, None if there is none."""
        rows = self.rows(row, f"{key_column(row)} = ? LIMIT 1", [key])
        return rows[0] if rows else None

    def select(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Returns what a statement of SQL selects. Raises RunError if the file is damaged."""
        # The time is that of the processor: a slow disk is no reason to stop.
        self._deadline = time.thread_time() + QUERY_S
        try:
            rows = self.connection.execute(statement, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _damaged(self.path, error) from error
        # No column holds bytes, and JSON has none.
        if any(bytes in map(type, row) for row in rows):
            raise _damaged(self.path, ValueError("it holds bytes where a run writes a text or a number"))
        return rows


def is_damage(error: Exception) -> bool:
    """Returns whether SQLite says that the file itself is damaged, and not that the disk or a lock is in the way."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, sqlite3.Error) and code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def damaged_archive(path: Path, error: object) -> RunError:
    """Returns the error about an archive that no run can go on with."""
    what = str(error).replace("\n", ": ")
    return RunError(f"{path} is damaged ({what}): put a copy of the file back, or start a new run")


def _damaged(path: Path, error: Exception) -> RunError:
    return RunError(f"cannot read {path}: {error}. If a copy of the file is left, put it back")
