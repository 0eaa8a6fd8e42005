"""The short views: the evaluation, and who met whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from statistics import fmean
from typing import Any, cast

from redqueen.base.intervals import interval, mean
from redqueen.base.plain_files import parse_json, read_plain
from redqueen.extras.page.headline import trained
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.members import some_of
from redqueen.extras.page.overview import panel_json
from redqueen.run.recording.metrics.metric import Curves, Line, MetricChart, by_key, column, named, part
from redqueen.store.archive import queries
from redqueen.store.archive.rows import ChampionRow, MemberRow
from redqueen.store.directory import RunError
from redqueen.store.files import quoted
from redqueen.store.lineage import Life, lives_in


def evaluation(run: LiveRun) -> dict[str, object]:
    """Returns the table that `redqueen eval` left in the run's folder, or None and how to make one.

    What was measured while the run trained is beside it.

    Raises RunError if it cannot be read.
    """
    run.directory.check_links()
    path = run.directory.evaluation
    own = _in_training(run.lines())
    try:
        table: Any = parse_json(read_plain(path))
        if not isinstance(table, dict):
            raise ValueError("it holds no table")
    except FileNotFoundError:
        return {"evaluation": None, "own": own, "command": f"redqueen eval {quoted(run.directory.path)} base"}
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path} ({error}): remove it and evaluate again") from error
    return {"evaluation": cast(Mapping[str, Any], table), "own": own, "command": ""}


def _in_training(lines: Sequence[Line]) -> dict[str, object] | None:
    """Returns the newest held-out scores that the run measured itself, None if it has measured none."""
    line = next((line for line in reversed(lines) if line.get("held_out")), None)
    if line is None:
        return None
    held_out: Mapping[str, Any] = line["held_out"]
    _, newborn = trained(line)
    return {
        "step": line["step"],
        "problems": held_out["problems"],
        "start": held_out["start"],
        "students": [
            {"name": name, **score, "newborn": name in newborn} for name, score in held_out["students"].items()
        ],
    }


def matrix(run: LiveRun) -> dict[str, object]:
    """Returns the members in order of birth, the solve rates of each pair by kind, and its games."""
    with run.archive() as archive:
        members = archive.every(MemberRow)
        cells = queries.cells(archive)
        outcomes = queries.outcomes(archive)
        champions = archive.every(ChampionRow)
    newest = run.newest()
    living = set(newest["members"]) if newest else set[str]()
    games = [{"teacher": pair[0], "student": pair[1], "outcomes": counts} for pair, counts in outcomes.items()]
    everybody = [{"name": row.name, "role": row.role, "lives": row.name in living} for row in members]
    # Champions of the hall of fame play under names of their own; only those who did are shown.
    met = set(chain.from_iterable(outcomes))
    everybody += [{"name": row.name, "role": row.role, "lives": False} for row in champions if row.name in met]
    return {
        "teachers": [member for member in everybody if member["role"] != "student"],
        "students": [member for member in everybody if member["role"] != "teacher"],
        "cells": [some_of(cell, "teacher", "student", "kind", "tasks", "rho") for cell in cells],
        "games": games,
    }


# What the machine did: speed, use of the device and memory, phase by phase, from `throughput` in metrics.jsonl.


def _chart(key: str, title: str, unit: str, note: str) -> MetricChart:
    def curves(lines: Sequence[Line], name: str) -> Curves:
        # A phase that does nothing of the kind has zeros.
        return {phase: values for phase, values in part(key)(lines, name).items() if any(values)}

    return MetricChart(f"machine-{key.replace('_', '-')}", title, note, curves, unit)


def _of_main_process(lines: Sequence[Line], name: str) -> Curves:
    # The most so far is the same for all phases of a step, but for those before it grew.
    def most(line: Line) -> float | None:
        found = [phase.get("host_gib") for phase in (line.get(name) or {}).values()]
        return max((value for value in found if value is not None), default=None)

    return {"main process": tuple(map(most, lines))}


_CHARTS = (
    _chart("sampled_per_second", "Tokens sampled a second", "tokens / s", "Tokens sampled in a second of sampling."),
    _chart(
        "trained_rows_per_second",
        "Tokens trained a second",
        "tokens / s",
        "Tokens through the model in a second of training, those of prompts included.",
    ),
    _chart(
        "decode_rows",
        "Texts written at once",
        "rows",
        "Mean number of texts (rows) in a decode step. More of them use a GPU better.",
    ),
    _chart(
        "mfu",
        "Use of the device",
        "share",
        "Model FLOPs over what the device could do in bf16 in the same time (MFU). Unknown where its peak is.",
    ),
    _chart("device_gib", "Memory of the GPU", "GiB", "The most that tensors had on the GPU in the phase."),
    MetricChart(
        "machine-host-gib",
        "Memory of the main process",
        "The most that the run's main process has had so far.",
        _of_main_process,
        "GiB",
    ),
    _chart("prompt_tokens", "Prompt tokens", "tokens", "Tokens of prompts that were computed for sampling."),
)
_SECONDS = MetricChart("machine-step-seconds", "Seconds of a step", "Wall time by phase.", by_key, "seconds")
_ENVIRONMENT = ("gpu", "processor", "cores", "device", "dtype", "threads")


def machine(run: LiveRun) -> dict[str, object]:
    """Returns the charts, a row for each phase, and what the run says of its machine."""
    lines = run.lines()
    environment = run.environment()
    drawn = [chart.panel(lines, "throughput", "machine", "") for chart in _CHARTS]
    drawn.append(_SECONDS.panel(lines, "seconds", "machine", ""))
    return {
        "phases": _phases(lines),
        "machine": [(name, str(environment[name])) for name in _ENVIRONMENT if environment.get(name) is not None],
        "panels": [panel_json(panel) for panel in drawn if panel.curves],
    }


def _phases(lines: Sequence[Line]) -> list[dict[str, object]]:
    """Returns the means of each phase over the last quarter of the steps, and its share of their time."""
    quarter = lines[-max(1, len(lines) // 4) :]
    total = sum(value or 0 for value in column(quarter, "seconds", "total"))
    rows: list[dict[str, object]] = []
    for phase in named(quarter, "seconds"):
        if phase == "total":
            continue
        # A step without the phase spent no time in it.
        spent = sum(value or 0 for value in column(quarter, "seconds", phase))
        share = spent / total if total else None
        rows.append({"phase": phase, "seconds": spent / len(quarter), "share": share})
    return rows


# Which operators' children did well: each operator's births, beside the parents that they came from.

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
