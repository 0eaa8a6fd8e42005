"""Which kind of task works best: the last quarter of a run, kind by kind."""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.base.intervals import mean
from redqueen.recording.metrics.panel import Line, column, named


def by_kind(lines: Sequence[Line]) -> dict[str, object]:
    """Returns a row for each kind of task, and the steps that they are over."""
    quarter = lines[-max(1, len(lines) // 4) :] if lines else []
    kinds = named(quarter, "valid_rate_by_kind")
    return {
        "first": quarter[0]["step"] if quarter else 0,
        "last": quarter[-1]["step"] if quarter else 0,
        "rows": [_row(quarter, kind) for kind in kinds],
    }


def _row(lines: Sequence[Line], kind: str) -> dict[str, object]:
    tasks = [count or 0 for count in column(lines, "tasks_by_kind", kind)]
    contested = [count or 0 for count in column(lines, "contested_by_kind", kind)]
    rates = [rate or 0 for rate in column(lines, "solve_rate_by_kind", kind)]
    solved = sum(count * rate for count, rate in zip(tasks, rates, strict=True))
    played = sum(tasks)
    return {
        "kind": kind,
        "tasks": played,
        "valid": mean(column(lines, "valid_rate_by_kind", kind)),
        "solved": solved / played if played else None,
        "contested": sum(contested) / played if played else None,
        "novel": mean(column(lines, "novel_rate_by_kind", kind)),
        "nodes": mean(column(lines, "complexity_by_kind", kind, "reached", "nodes")),
    }
