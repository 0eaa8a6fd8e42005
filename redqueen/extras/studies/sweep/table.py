"""The table of a sweep: each cell's metrics over its seeds. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from redqueen.base.intervals import Interval, interval, mean, paired
from redqueen.run.recording.metrics.panel import Line, contested_share

METRICS = ("solve_rate", "valid_rate", "contested", "novel_rate")
"""The columns of metrics.jsonl that are compared."""
PROBE = "probe"
"""The metric that is measured after the run: the solve rate of the last students on reserved programs.

The others are in sample: they are measured on what the runs themselves train on."""

BySeed = Mapping[int, float]
ByCell = Mapping[str, BySeed]


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One metric of one cell: means over its seeds with 95 % intervals."""

    cell: str
    metric: str
    final: Interval | None
    """Over the last quarter of the steps, at least one."""
    mean: Interval | None
    """Over all steps."""
    final_over: Interval | None
    """`final` minus that of the first cell, paired by seed; None in the first cell."""
    mean_over: Interval | None
    """`mean` minus that of the first cell, paired by seed; None in the first cell."""


def rows(lines: Mapping[str, Mapping[int, Sequence[Line]]], probes: ByCell) -> list[SweepRow]:
    """Returns the table, metric by metric.

    `lines` are those of metrics.jsonl by cell and seed, `probes` the scores on reserved programs by cell and seed.
    """
    table: list[SweepRow] = []
    for metric in METRICS:
        final = {cell: _by_seed(runs, metric, last=True) for cell, runs in lines.items()}
        mean = {cell: _by_seed(runs, metric, last=False) for cell, runs in lines.items()}
        table += _rows(metric, final, mean)
    if any(probes.values()):
        # the last students only: there is nothing to average over steps
        table += _rows(PROBE, probes, {cell: {} for cell in probes})
    return table


def _rows(metric: str, final: ByCell, mean: ByCell) -> list[SweepRow]:
    # The first cell is the baseline of the comparisons, so the order of the values in --grid matters.
    first = next(iter(final))
    return [
        SweepRow(
            cell,
            metric,
            interval(list(final[cell].values())),
            interval(list(mean[cell].values())),
            None if cell == first else paired(final[cell], final[first]),
            None if cell == first else paired(mean[cell], mean[first]),
        )
        for cell in final
    ]


def _by_seed(runs: Mapping[int, Sequence[Line]], metric: str, *, last: bool) -> dict[int, float]:
    """Returns means over steps, by seed; steps in which there was nothing to average are left out."""
    means: dict[int, float] = {}
    for seed, lines in runs.items():
        chosen = lines[-max(1, len(lines) // 4) :] if last else lines
        value = mean(_metric(line, metric) for line in chosen)
        if value is not None:
            means[seed] = value
    return means


def _metric(line: Line, metric: str) -> float | None:
    """Returns a step's number; `contested` is the share of its tasks with 0 < rho < 1."""
    return contested_share(line) if metric == "contested" else line[metric]
