"""How coverage grows with the number of tasks: curves of runs of different lengths, at equal numbers of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from redqueen.run.recording.measures import cells_of
from redqueen.store.archive.rows import MeasureRow
from redqueen.tasks.programs.coverage import rarefied

_POINTS = 24


def levels(tasks: int) -> tuple[int, ...]:
    """Returns numbers of tasks from 1 to `tasks`, closer together at the start, where a curve bends most."""
    numbers = [round(tasks * ((i + 1) / _POINTS) ** 2) for i in range(_POINTS)]
    return tuple(sorted({max(1, number) for number in numbers})) if tasks else ()


def rarefaction(rows: Sequence[MeasureRow], what: str, at: Sequence[int]) -> list[float]:
    """Returns the expected number of different cells in so many tasks, drawn from all of `rows` without replacement.

    It is the rarefied count (docs/reference/METRICS.md) for every number in `at`; none may be above len(rows).
    """
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(set(cells_of(row)[what]))
    return [rarefied(counts.values(), len(rows), level) for level in at]
