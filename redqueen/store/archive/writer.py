"""The archive: every match, proposal, task, attempt and birth of a run, in one SQLite file."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from redqueen.base.closing import Closing
from redqueen.records import Kind, Status
from redqueen.store.archive import LAYOUT, TABLES, check_layout, create_statements, insert_statement, values_of
from redqueen.store.archive.rows import ListingRow, MeasureRow, ProposalRow, Row, TallyRow, TaskRow
from redqueen.store.files import InPlace, check_archive

# What the archive keeps of a step so that a reader need not go through all of its texts: `listing` and `tallies`.
#
# Both follow from the rows of the step, and are written in the same transaction by `redqueen.store.archive.writer`.


def derived_rows(rows: Iterable[Row]) -> list[Row]:
    """Returns what follows from the rows of a step: a row of `listing` for each proposal, in order, and the tallies."""
    proposals: list[ProposalRow] = []
    tasks: dict[str, TaskRow] = {}
    measures: dict[str, MeasureRow] = {}
    for row in rows:
        if isinstance(row, ProposalRow):
            proposals.append(row)
        elif isinstance(row, TaskRow):
            tasks[row.id] = row
        elif isinstance(row, MeasureRow):
            measures[row.task] = row
    # A proposal that is no valid task has no measures either.
    listing = [
        _listed(proposal, tasks.get(proposal.id), measures.get(proposal.id) if proposal.id in tasks else None)
        for proposal in proposals
    ]
    return [*listing, *_tallies(listing)]


def _listed(proposal: ProposalRow, task: TaskRow | None, measures: MeasureRow | None) -> ListingRow:
    return ListingRow(
        rho=None if task is None else task.rho,
        nodes=None if measures is None else measures.reached_nodes,
        novel=None if task is None else task.novel,
        reward=proposal.reward,
        tokens=proposal.tokens,
        lines=None if measures is None else measures.reached_lines,
        depth=None if measures is None else measures.reached_depth,
        status=proposal.status,
        kind=proposal.kind,
        match=proposal.match,
        step=proposal.step,
        id=proposal.id,
    )


def _tallies(listing: list[ListingRow]) -> list[TallyRow]:
    groups: dict[tuple[str, Kind, Status], list[ListingRow]] = {}
    for row in listing:
        groups.setdefault((row.match, row.kind, row.status), []).append(row)
    return [_tally(group) for group in groups.values()]


def _tally(group: list[ListingRow]) -> TallyRow:
    rates = [row.rho for row in group if row.rho is not None]
    return TallyRow(
        match=group[0].match,
        step=group[0].step,
        kind=group[0].kind,
        status=group[0].status,
        proposals=len(group),
        rated=len(rates),
        rho_sum=sum(rates, 0.0),
    )


class Archive(Closing):
    """Writes rows a step at a time, in one transaction: a step is stored as a whole or not at all."""

    def __init__(self, path: Path) -> None:
        """Opens the archive at `path`, or makes a new one.

        Raises RunError if another version of Red Queen wrote it, or if it leads out of the run's folder; sqlite3.Error
        if it is no archive.
        """
        check_archive(path, writes=True)
        new = not path.exists()
        self.connection = sqlite3.connect(path)
        # With a write-ahead log people can read the archive while the run writes to it, and neither waits.
        self.connection.execute("PRAGMA journal_mode = WAL")
        # The check comes first: CREATE TABLE IF NOT EXISTS would quietly add what an older archive lacks.
        if new:
            self.connection.execute(f"PRAGMA user_version = {LAYOUT}")
        else:
            check_layout(self.connection, path)
        for statement in create_statements():
            self.connection.execute(statement)
        self._place = InPlace(path)

    def close(self) -> None:
        """Closes the file and folds the log of new rows into it, so that it can be copied and read anywhere."""
        # While somebody reads, the log cannot go. Then it stays next to the file, and the rows are safe in it. A file
        # that is closed already is left alone.
        with contextlib.suppress(sqlite3.OperationalError, sqlite3.ProgrammingError):
            self.connection.execute("PRAGMA journal_mode = DELETE")
        self.connection.close()

    def write(self, rows: Iterable[Row]) -> None:
        """Inserts the rows of a step, those of each table in order, and the rows that follow from them.

        Raises sqlite3.Error if one is refused; then none is written. Raises RunError if the file is no longer there.
        """
        self._place.check()
        tables: dict[type[Row], list[Row]] = {}
        # One transaction for all rows of a step: after a kill there is never a task without its attempts, so no reader
        # has to ask whether a step is complete.
        with self.connection:
            for row in rows:
                tables.setdefault(type(row), []).append(row)
            for row in derived_rows(chain.from_iterable(tables.values())):
                tables.setdefault(type(row), []).append(row)
            # Table by table: rows of one table then lie next to one another in the file, where they are read together.
            for table, same in tables.items():
                self.connection.executemany(insert_statement(table), map(values_of, same))

    def rewind(self, step: int) -> None:
        """Removes the rows of the steps after `step`: a resumed run plays those steps again.

        The children that were born at the end of a step belong to that step.
        """
        # The archive is written before the checkpoint, so after a kill it may be ahead of the checkpoint that the run
        # resumes from. Without the rewind the steps in between would be refused as keys that exist already.
        with self.connection:
            for table in TABLES:
                self.connection.execute(f"DELETE FROM {table.name} WHERE step > ?", (step,))
