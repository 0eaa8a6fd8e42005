"""`redqueen sweep`: a grid of overrides and seeds as ordinary runs, and their means with intervals.

OUT/CELL/seed-N is a run directory, seed-N.log next to it what its process printed, OUT/sweep.json the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from rich.console import Console

from redqueen import __version__
from redqueen.analysis.replay import load_step, open_replay
from redqueen.base.intervals import Interval, interval, interval_text, mean, paired
from redqueen.errors import UserError
from redqueen.evals.held_out import run_evaluation
from redqueen.extras.studies.sweep import HALF, Combination, SweepRun, plan_sweep, train_runs
from redqueen.method.rewards import scores
from redqueen.run.recording.lines import Lines
from redqueen.run.recording.metrics.metric import Line, contested_share
from redqueen.run.recording.plain_console import plain_table, progress_console, table_console
from redqueen.run.session import fit, quiet_libraries
from redqueen.store.directory import RunDirectory, write_json
from redqueen.store.metrics import StepMetrics

# The table of a sweep: each cell's metrics over its seeds. Imports no torch.

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


# The score of a finished run's last students on reserved programs, which no training and no selection has seen.
#
# Solve rates within a run are in sample, and measured against its own opponents, so they cannot be compared between
# runs. This one can.


def held_out_score(run: SweepRun, tasks: int, progress: Console) -> float:
    """Returns the mean solve rate of the run's last students on `tasks` reserved tasks.

    It is measured once and kept in seed-N.probe.json next to the run; a measurement is announced on `progress`.
    Raises RunError if the checkpoint of the sweep's last step is gone, UserError if the base cannot be loaded or does
    not fit in free memory, or the sandbox failed on every attempt.
    """
    file = run.path.with_name(f"{run.path.name}.probe.json")
    steps = run.config.run.steps
    # A score belongs to one training, one step and these tasks: a sweep that was prolonged measures again, and so do a
    # run that was trained anew and a release that may have other programs.
    wanted = {
        "programs": f"reserved, {HALF}",
        "release": __version__,
        "kinds": run.probed,
        "tasks": tasks,
        "step": steps,
        "trained": [line["time"] for line in run.lines()[-1:]],
    }
    if file.exists():
        measured = json.loads(file.read_text())
        by_member = measured.pop("scores")
        if measured == wanted:
            return fmean(by_member.values())
    progress.print(f"{run.cell} seed {run.seed}: {tasks} reserved tasks")
    by_member = _measure(run, tasks, progress)
    write_json(file, {**wanted, "scores": by_member})
    return fmean(by_member.values())


def _measure(run: SweepRun, tasks: int, progress: Console) -> dict[str, float]:
    """Returns the solve rate of each student. Raises UserError, RunError."""
    # An earlier sweep may have played more steps, and the checkpoint of this one may be gone. No other stands for it.
    saved = load_step(RunDirectory(run.path), run.config.run.steps)
    students = [member.name for member in saved.population.members.values() if member.role != "teacher"]
    # The sweep holds what was asked for, and sizes that are left to the machine are still 0 in it.
    config = fit(run.config, len(students), Lines(progress))
    with open_replay(config, saved, len(students)) as replay:
        for name in students:
            replay.policy.join(name, saved.adapters[name])
        fixed = run_evaluation(replay.self_play, HALF, run.probed, tasks)
        by_member = scores(fixed.attempt(students))
    if not by_member:
        raise UserError("the sandbox failed on every attempt: see redqueen doctor")
    return by_member


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
            try:
                probes[run.cell][run.seed] = held_out_score(run, tasks, progress)
            except UserError as error:
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
