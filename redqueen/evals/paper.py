"""The paper's table: the base, the single agent, and a population's mean, best and worst member, by benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from redqueen.base.intervals import Interval
from redqueen.evals.scores import Results
from redqueen.evals.target_words import BASE

Kind = Literal["base", "adapter", "single agent", "mean", "best", "worst"]
ORDER: tuple[Kind, ...] = ("base", "adapter", "single agent", "mean")
"""Columns come in this order, whatever order the targets were given in; a mean is followed by its best and worst."""
AVERAGE_TITLES = {"code": "code average", "maths": "maths average", "all": "all"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperColumn:
    """One column."""

    kind: Kind
    target: str
    members: tuple[str, ...]
    """The names of its members; ("",) where the target is one adapter."""
    entries: tuple[int, ...]
    """The numbers of its entries."""

    @property
    def title(self) -> str:
        """What it is, without the target where that is a run of several members."""
        if self.kind in ("best", "worst"):
            return f"{self.kind}: {self.members[0]}"
        if self.kind == "mean":
            return f"mean of {len(self.members)}"
        return f"{self.target} (single agent)" if self.kind == "single agent" else f"{self.target} {self.members[0]}"


def columns(results: Results) -> list[PaperColumn]:
    """Returns the columns. A run of several members has three: their mean, the best and the worst one."""
    groups: list[list[PaperColumn]] = []
    for target, entries in results.groups().items():
        if len(entries) == 1:
            kind = "single agent" if results.entries[entries[0]].single_agent else "adapter"
            groups.append([_column(results, "base" if target == BASE else kind, target, entries)])
            continue
        ranked = results.ranked(entries)
        by_kind: list[tuple[Kind, list[int]]] = [("mean", entries), ("best", ranked[:1]), ("worst", ranked[-1:])]
        groups.append([_column(results, kind, target, chosen) for kind, chosen in by_kind])
    groups.sort(key=lambda group: ORDER.index(group[0].kind))
    return [column for group in groups for column in group]


def _column(results: Results, kind: Kind, target: str, entries: Sequence[int]) -> PaperColumn:
    members = tuple(results.entries[entry].member for entry in entries)
    return PaperColumn(kind=kind, target=target, members=members, entries=tuple(entries))


def cell(results: Results, benchmark: str, column: PaperColumn) -> Interval | None:
    """Returns the score of a column on a benchmark or average, with its interval; None if nothing was judged."""
    if column.kind == "mean":
        return results.population(benchmark, column.entries)
    return results.rate(benchmark, column.entries[0])


def cut_off(results: Results, column: PaperColumn) -> float | None:
    """Returns the share of a column's texts that the token limit ended; None if nothing was judged."""
    cells = [cells[entry] for entry in column.entries for cells in results.cells.values()]
    samples = sum(cell.samples for cell in cells)
    return sum(cell.cut_off * cell.samples for cell in cells) / samples if samples else None


def tokens(results: Results, column: PaperColumn) -> int:
    """Returns how many tokens the entries of a column sampled."""
    return sum(cells[entry].tokens for entry in column.entries for cells in results.cells.values())


def row_title(results: Results, benchmark: str) -> str:
    """Returns the name of a benchmark or average for people."""
    for loaded in results.benchmarks:
        if loaded.benchmark.name == benchmark:
            return loaded.benchmark.title
    return AVERAGE_TITLES[benchmark]


def document(results: Results, sentences: Sequence[str], notes: Sequence[str]) -> dict[str, Any]:
    """Returns the table as plain data, as the live page and the report draw it (`evaluation.json` of a run)."""
    paper_columns = columns(results)
    rows: list[dict[str, Any]] = []
    for name in results.columns():
        scores = [cell(results, name, column) for column in paper_columns]
        rows.append(
            {
                "title": row_title(results, name),
                "average": name not in results.cells,
                "cells": [asdict(score) if score else None for score in scores],
            }
        )
    return {
        "columns": [
            {"kind": column.kind, "title": column.title.strip(), "target": column.target} for column in paper_columns
        ],
        "rows": rows,
        "cut_off": [cut_off(results, column) for column in paper_columns],
        "tokens": [tokens(results, column) for column in paper_columns],
        "sentences": list(sentences),
        "notes": list(notes),
    }
