"""Which operators' children did well: each operator's births, beside the parents that they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from statistics import fmean
from typing import Any

from redqueen.base.intervals import interval, mean
from redqueen.extras.page.live_run import LiveRun
from redqueen.store.lineage import Life, lives_in

CONTROLS = ("copy_parent", "linear_mean", "fresh")
"""The operators that all others have to beat, as in `redqueen.method.operators`, which needs torch."""


def operators(run: LiveRun) -> dict[str, object]:
    """Returns a row for each role and operator that made a child, the best first, with all its children."""
    with run.archive() as archive:
        everybody = lives_in(archive)
    born = [life for life in everybody if life.parents]
    parents = set(chain.from_iterable(life.parents for life in born))
    gains = _held_out(run.lines())
    groups: dict[tuple[str, str], list[Life]] = {}
    for life in born:
        groups.setdefault((life.role, life.operator), []).append(life)
    rows = [_row(role, operator, children, parents, gains) for (role, operator), children in groups.items()]
    return {"rows": sorted(rows, key=lambda row: (row["role"] != "teacher", -_order(row["change"])))}


def _row(
    role: str, operator: str, children: Sequence[Life], parents: set[str], gains: Mapping[str, float]
) -> dict[str, Any]:
    changes = {life.name: change for life in children if (change := _change(life)) is not None}
    gained = interval(list(changes.values()))
    held_out = [gains[life.name] for life in children if life.name in gains]
    return {
        "role": role,
        "operator": operator,
        "control": operator in CONTROLS,
        "children": [
            {"name": life.name, "change": changes.get(life.name), "lives": life.died is None, "born": life.born}
            for life in children
        ],
        "living": sum(life.died is None for life in children),
        "parents": sum(life.name in parents for life in children),
        "age": fmean(life.age for life in children),
        "change": None if gained is None else asdict(gained),
        "held_out": mean(held_out),
    }


def _change(life: Life) -> float | None:
    """Returns a child's last fitness less that of its fitter parent at the birth."""
    before = life.parent_fitness[0] if life.parent_fitness else None
    return None if before is None or life.last is None or not life.games else life.last - before


def _held_out(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns the last known gain of each student on held-out problems."""
    gains: dict[str, float] = {}
    for line in lines:
        scores: Mapping[str, Any] = (line.get("held_out") or {}).get("students") or {}
        gains.update({name: score["gain"] for name, score in scores.items()})
    return gains


def _order(change: Mapping[str, float] | None) -> float:
    return float("-inf") if change is None else change["mean"]
