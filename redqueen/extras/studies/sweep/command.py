"""`redqueen sweep`: a grid of overrides and seeds as ordinary runs, and their means with intervals.

OUT/CELL/seed-N is a run directory, seed-N.log next to it what its process printed, OUT/sweep.json the table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from redqueen.base.intervals import interval_text
from redqueen.cli.tables import plain_table, progress_console, table_console
from redqueen.extras.studies.sweep.grid import Combination
from redqueen.extras.studies.sweep.held_out import held_out_score
from redqueen.extras.studies.sweep.plan_command import plan_sweep, train_runs
from redqueen.extras.studies.sweep.runs import SweepRun
from redqueen.extras.studies.sweep.table import PROBE, SweepRow, rows
from redqueen.run.session import quiet_libraries
from redqueen.store.directory import RunError, write_json
from redqueen.store.metrics import StepMetrics

NOTES = """\
final: mean over the last quarter of the steps; mean: over all; [..]: 95 % intervals over seeds (Student's t).
Differences are from the first cell, paired by seed. solve, valid, contested and novel are in sample: measured against
the run's own opponents, on what it trains on, so they do not show who is better. probe is held out: the solve rate of
the last students on reserved programs."""

Probes = dict[str, dict[int, float]]


def run_sweep(
    args: Sequence[str], options: Sequence[str], seeds: int, out: Path, jobs: int, probe: int, *, as_json: bool
) -> int:
    """Trains the rest of the sweep and prints its table; returns the exit code. Raises UserError for a bad grid."""
    cells, runs = plan_sweep(args, options, seeds, out, probe)
    progress = progress_console()
    if not train_runs(runs, jobs, progress):
        progress.print("stopped: the same command resumes the sweep")
        return 130
    probes = _probes(cells, runs, probe, progress)
    # A run that failed leaves its cell with fewer seeds. The table is still worth having, and the exit code tells.
    lines: dict[str, dict[int, list[StepMetrics]]] = {cell.name: {} for cell in cells}
    for run in runs:
        if run.done:
            lines[run.cell][run.seed] = run.lines()
    table = rows(lines, probes)
    document = {
        "args": list(args),
        "grid": list(options),
        "runs": [{"cell": r.cell, "seed": r.seed, "path": str(r.path), "done": r.done} for r in runs],
        "probe_tasks": probe,
        "probes": probes,
        "rows": [asdict(row) for row in table],
    }
    write_json(out / "sweep.json", document)
    if as_json:
        print(json.dumps(document, indent=1))
    else:
        _show(table, cells)
    failed = [run for run in runs if not run.done]
    for run in failed:
        progress.print(f"not finished: {run.cell} seed {run.seed}, see {run.log}")
    return 1 if failed else 0


def _probes(cells: Sequence[Combination], runs: Sequence[SweepRun], tasks: int, progress: Console) -> Probes:
    """Returns the scores of the finished runs on `tasks` reserved tasks, by cell and seed; none if `tasks` is 0."""
    probes: Probes = {cell.name: {} for cell in cells}
    if not tasks:
        return probes
    quiet_libraries()
    for run in runs:
        if run.done:
            message = f"{run.cell} seed {run.seed}: {tasks} reserved tasks"
            try:
                probes[run.cell][run.seed] = held_out_score(run, tasks, lambda text=message: progress.print(text))
            except RunError as error:
                progress.print(f"not measured: {run.cell} seed {run.seed}: {error}", soft_wrap=True)
    return probes


def _heading(metric: str) -> str:
    """Returns the metric's name and what it was measured on."""
    return f"{metric.removesuffix('_rate')} ({'held out' if metric == PROBE else 'in sample'})"


def _show(table: Sequence[SweepRow], cells: Sequence[Combination]) -> None:
    console = table_console()
    columns = plain_table("metric", "cell", "seeds", "final", "mean", "final - first cell", "mean - first cell")
    for i, row in enumerate(table):
        columns.add_row(
            # A metric has one row for each cell, and its name is in the first of them only.
            _heading(row.metric) if i % len(cells) == 0 else "",
            row.cell,
            str(row.final.n if row.final else 0),
            interval_text(row.final, ".2f"),
            interval_text(row.mean, ".2f"),
            interval_text(row.final_over),
            interval_text(row.mean_over),
        )
    console.print(columns)
    console.print(NOTES, soft_wrap=True)
