"""Which kind of task works best: the last quarter of a run, kind by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

Line = Mapping[str, Any]


def by_kind(lines: Sequence[Line]) -> dict[str, object]:
    """Returns a row for each kind of task, and the steps that they are over."""
    quarter = lines[-max(1, len(lines) // 4) :] if lines else []
    kinds = dict.fromkeys(kind for line in quarter for kind in line.get("valid_rate_by_kind") or {})
    return {
        "first": quarter[0]["step"] if quarter else 0,
        "last": quarter[-1]["step"] if quarter else 0,
        "rows": [_row(quarter, kind) for kind in kinds],
    }


def _row(lines: Sequence[Line], kind: str) -> dict[str, object]:
    tasks = [(line.get("tasks_by_kind") or {}).get(kind, 0) for line in lines]
    contested = sum((line.get("contested_by_kind") or {}).get(kind, 0) for line in lines)
    solved = 0.0
    for line, count in zip(lines, tasks, strict=True):
        solved += count * ((line.get("solve_rate_by_kind") or {}).get(kind) or 0)
    played = sum(tasks)
    return {
        "kind": kind,
        "tasks": played,
        "valid": _mean(lines, "valid_rate_by_kind", kind),
        "solved": solved / played if played else None,
        "contested": contested / played if played else None,
        "novel": _mean(lines, "novel_rate_by_kind", kind),
        "nodes": _nodes(lines, kind),
    }


def _mean(lines: Sequence[Line], key: str, kind: str) -> float | None:
    values = [(line.get(key) or {}).get(kind) for line in lines]
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _nodes(lines: Sequence[Line], kind: str) -> float | None:
    """Returns the mean size of what can run of the programs."""
    found = [(line.get("complexity_by_kind") or {}).get(kind) for line in lines]
    known = [each["reached"]["nodes"] for each in found if each]
    return fmean(known) if known else None
