"""What the archive keeps of a step so that nobody has to read all of its texts: `listing` and `tallies`.

Both follow from the rows of the step, and are written in the same transaction by `redqueen.store.archive.writer`.
"""

from __future__ import annotations

from collections.abc import Iterable

from redqueen.records import Kind, Status
from redqueen.store.archive.rows import ListingRow, MeasureRow, ProposalRow, Row, TallyRow, TaskRow


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
