"""How coverage grows with the number of tasks: curves of runs of different lengths, at equal numbers of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from redqueen.programs.coverage import rarefied
from redqueen.runs.archive.rows import MeasureRow

_POINTS = 24

CELLS: Mapping[str, Callable[[MeasureRow], Collection[str]]] = {
    "programs": lambda row: (row.shape,),
    "paths": lambda row: row.paths.split(),
    "functions": lambda row: row.functions.split(),
    "signatures": lambda row: (row.signature,),
}
"""What a task covers, by the name of the coverage (docs/METRICS.md)."""


def levels(tasks: int) -> tuple[int, ...]:
    """Returns numbers of tasks from 1 to `tasks`, closer together at the start, where a curve bends most."""
    numbers = [round(tasks * ((i + 1) / _POINTS) ** 2) for i in range(_POINTS)]
    return tuple(sorted({max(1, number) for number in numbers})) if tasks else ()


def rarefaction(rows: Sequence[MeasureRow], what: str, at: Sequence[int]) -> list[float]:
    """Returns the expected number of different cells in so many tasks, drawn from all of `rows` without replacement.

    It is the rarefied count of docs/METRICS.md for every number in `at`, none of which may be above len(rows).
    """
    cells = CELLS[what]
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(set(cells(row)))
    return [rarefied(counts.values(), len(rows), level) for level in at]
