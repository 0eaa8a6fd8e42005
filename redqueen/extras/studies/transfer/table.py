"""The table of strangers: what each gained on held-out tasks, by the curriculum that it was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from redqueen.base.intervals import Interval, interval, paired
from redqueen.extras.studies.transfer.curricula import SEEDS, Curriculum
from redqueen.store.metrics import StepMetrics

Gains = Mapping[str, Mapping[int, float]]
"""By cell and seed, the held-out score of a stranger less that of its start, in [-1, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRow:
    """The strangers of one cell."""

    cell: str
    tasks: int
    """How many tasks they were trained on."""
    lines: float | None
    """The mean number of lines of the programs; None if the measures do not apply to their language."""
    solve_rate: float | None
    """How often the run's own students solved these tasks, in [0, 1]; None for the seeds."""
    gain: Interval | None
    """Over the seeds of the strangers (Student's t)."""
    over_seeds: Interval | None = None
    """The gain less that of the cell `SEEDS`, paired by seed; None in its own row."""
    last_over_first: Interval | None = None
    """In the row of a last third: its gain less that of the first third of the same run, paired by seed."""


def gain(lines: Sequence[StepMetrics]) -> float | None:
    """Returns the gain of a run's student in its last evaluation; None if nothing was evaluated."""
    for line in reversed(lines):
        scores = line.get("held_out")
        if scores is not None:
            return fmean(score["gain"] for score in scores["students"].values())
    return None


def rows(curricula: Sequence[Curriculum], gains: Gains) -> list[TransferRow]:
    """Returns the table, a row for each curriculum in their order."""
    table: list[TransferRow] = []
    first: Mapping[int, float] = {}
    for curriculum in curricula:
        own = gains[curriculum.name]
        table.append(
            TransferRow(
                cell=curriculum.name,
                tasks=len(curriculum.records),
                lines=curriculum.lines(),
                solve_rate=curriculum.solve_rate(),
                gain=interval(list(own.values())),
                over_seeds=None if curriculum.part is None else paired(own, gains[SEEDS]),
                last_over_first=paired(own, first) if curriculum.part == "last" else None,
            )
        )
        # The first third of a run comes before its last third.
        first = own
    return table
