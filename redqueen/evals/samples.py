"""The samples of an evaluation with their verdicts, in SQLite: what is there is not sampled again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from redqueen.base.closing import Closing
from redqueen.errors import UserError

FILE = "samples.sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRow:
    """One text with its verdict."""

    setting: str
    """The checksum of everything that the text and its verdict depend on but the adapter: of the problem too, since a
    later release may have another one under its name."""
    adapter: str
    """The checksum of the adapter's weights."""
    benchmark: str
    problem: str
    number: int
    """Counted from 0, among the samples of one adapter at one problem."""
    label: str
    """The target and the member, for people."""
    text: str
    answer: str | None
    status: str
    detail: str
    tokens: int
    cut_off: int
    """1 if the token limit ended the text, otherwise 0."""


Key = tuple[str, str, int]
"""Adapter, problem and number."""
_NAMES = [field.name for field in fields(SampleRow)]
_KEY = "setting, adapter, benchmark, problem, number"


class SampleStore(Closing):
    """Holds samples in the file `FILE` of a folder, or in memory."""

    def __init__(self, folder: Path | None) -> None:
        """Opens the file, and makes it if there is none. Raises UserError if it is no such file, or cannot be made."""
        path = ":memory:" if folder is None else str(folder / FILE)
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            self.connection = sqlite3.connect(path)
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"cannot write {path} ({error}): choose another --out") from error
        columns = ", ".join(
            f"{field.name} {'INTEGER' if field.type == 'int' else 'TEXT'}" for field in fields(SampleRow)
        )
        try:
            self.connection.execute(f"CREATE TABLE IF NOT EXISTS samples ({columns}, PRIMARY KEY ({_KEY}))")
            self.connection.execute(f"SELECT {', '.join(_NAMES)} FROM samples LIMIT 1")
        except sqlite3.Error as error:
            raise UserError(f"{path} holds no samples ({error}): choose another --out") from error

    def finished(self, settings: Mapping[str, str], benchmark: str) -> dict[Key, SampleRow]:
        """Returns the samples of a benchmark that were made in the setting of their problem.

        Those that the machine lost are left out.
        """
        cursor = self.connection.execute(
            f"SELECT {', '.join(_NAMES)} FROM samples WHERE benchmark = ? AND status != 'infra_error'", (benchmark,)
        )
        rows = [row for row in map(_row, cursor) if settings.get(row.problem) == row.setting]
        return {(row.adapter, row.problem, row.number): row for row in rows}

    def add(self, rows: Iterable[SampleRow]) -> None:
        """Stores samples: all of them, or none if the process is killed. Raises UserError if the disk fails."""
        marks = ", ".join("?" for _ in _NAMES)
        try:
            with self.connection:
                self.connection.executemany(
                    f"INSERT OR REPLACE INTO samples ({', '.join(_NAMES)}) VALUES ({marks})",
                    [[getattr(row, name) for name in _NAMES] for row in rows],
                )
        except sqlite3.Error as error:
            raise UserError(f"cannot write samples ({error}): the same command goes on from those before") from error

    def close(self) -> None:
        self.connection.close()


def _row(values: tuple[Any, ...]) -> SampleRow:
    return SampleRow(**dict(zip(_NAMES, values, strict=True)))
