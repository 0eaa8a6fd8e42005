"""The learning curve of a run: an evaluation of all the checkpoints that it has kept (`redqueen eval --step all`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from redqueen.base.intervals import Interval
from redqueen.evals.scores import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What the members of one checkpoint solve, on average."""

    step: int
    members: tuple[str, ...]
    score: Interval
    """With its interval over problems."""
    gain: Interval | None
    """The score less that of the run's first checkpoint, paired by problem; None at the first one."""
    pass_at: Mapping[int, float]
    """pass@k by k, for powers of two up to the number of samples; empty for an average of benchmarks."""


def curves(results: Results, column: str) -> dict[str, list[Point]]:
    """Returns the curve of each run in one column of the results, by step; of what is no run's checkpoint, none."""
    checkpoints: dict[str, dict[int, list[int]]] = {}
    for number, entry in enumerate(results.entries):
        if entry.step is not None:
            run = entry.target.removesuffix(f"@{entry.step}")
            checkpoints.setdefault(run, {}).setdefault(entry.step, []).append(number)
    return {run: _curve(results, column, dict(sorted(steps.items()))) for run, steps in checkpoints.items()}


def _curve(results: Results, column: str, checkpoints: Mapping[int, list[int]]) -> list[Point]:
    points: list[Point] = []
    first = next(iter(checkpoints.values()))
    for step, entries in checkpoints.items():
        score = results.mean_of(column, entries)
        if score is None:
            continue
        points.append(
            Point(
                step=step,
                members=tuple(results.entries[entry].member for entry in entries),
                score=score,
                gain=None if entries is first else results.mean_over(column, entries, first),
                pass_at=_pass_at(results, column, entries),
            )
        )
    return points


def _pass_at(results: Results, column: str, entries: list[int]) -> dict[int, float]:
    """Returns the mean over members of pass@k, for each k that all of them have."""
    if column not in results.cells:
        return {}
    passes = [results.cells[column][entry].pass_at for entry in entries]
    return {k: fmean(pass_at[k] for pass_at in passes) for k in passes[0] if all(k in pass_at for pass_at in passes)}
