"""Reads a run's archive, also while the run writes to it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from redqueen.runs.archive.rows import (
    AttemptRow,
    ChampionRow,
    MatchRow,
    MemberRow,
    ProbeRow,
    ProposalRow,
    ReplacementRow,
    Row,
    StandingRow,
    TaskRow,
)
from redqueen.runs.archive.schema import check_layout, row_of, select_statement
from redqueen.runs.directory import RunError

R = TypeVar("R", bound=Row)


class ArchiveReader:
    """Read-only access to one archive. Each query returns typed rows by step, and as written within a step."""

    def __init__(self, path: Path) -> None:
        """Opens the archive. Raises RunError if there is none, or if another version of Red Queen wrote it."""
        if not path.exists():
            raise RunError(f"{path.parent} has no archive ({path.name}): nothing was trained here")
        # Read-only by the URI: an analysis can never damage a run, and never makes an empty file by opening it.
        self.connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            check_layout(self.connection, path)
        except (sqlite3.Error, RunError) as error:
            self.connection.close()
            if isinstance(error, RunError):
                raise
            raise RunError(f"cannot read {path}: {error}") from error

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self.connection.close()

    def members(self) -> list[MemberRow]:
        """Returns every member that ever lived, in order of birth."""
        return self._rows(MemberRow)

    def replacements(self) -> list[ReplacementRow]:
        """Returns every birth after the first population."""
        return self._rows(ReplacementRow)

    def standings(self) -> list[StandingRow]:
        """Returns where each living member stood after each step."""
        return self._rows(StandingRow)

    def champions(self) -> list[ChampionRow]:
        """Returns every entry into the hall of fame."""
        return self._rows(ChampionRow)

    def matches(self, step: int | None = None) -> list[MatchRow]:
        """Returns the matches of `step`, or of all steps."""
        return self._rows(MatchRow, step)

    def proposals(self, step: int | None = None) -> list[ProposalRow]:
        """Returns the proposals of `step`, or of all steps."""
        return self._rows(ProposalRow, step)

    def tasks(self, step: int | None = None) -> list[TaskRow]:
        """Returns the valid tasks of `step`, or of all steps; `TaskRow.task()` is the task itself."""
        return self._rows(TaskRow, step)

    def attempts(self, step: int | None = None) -> list[AttemptRow]:
        """Returns the attempts of `step`, or of all steps."""
        return self._rows(AttemptRow, step)

    def probes(self, step: int | None = None) -> list[ProbeRow]:
        """Returns the attempts at held-out tasks after `step`, or after all steps."""
        return self._rows(ProbeRow, step)

    def _rows(self, row: type[R], step: int | None = None) -> list[R]:
        """Returns the rows of one table in a fixed order, so that every analysis of them gives the same numbers."""
        where = ""
        values: tuple[int, ...] = ()
        if step is not None:
            where = " WHERE step = ?"
            values = (step,)
        # `rowid` is the order of writing, which SQL does not promise unless it is asked for.
        cursor = self.connection.execute(f"{select_statement(row)}{where} ORDER BY step, rowid", values)
        return [row_of(row, stored) for stored in cursor]
