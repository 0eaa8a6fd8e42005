"""What `redqueen sweep` is going to train, said before anything that takes time is imported."""

# No import here may load torch: a grid that is refused is refused at once (see `redqueen.cli.app`).

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from rich.console import Console

from redqueen.base.machine import clock
from redqueen.cli.tables import progress_console
from redqueen.config.recipes import configure
from redqueen.extras.studies.sweep import Combination, SweepRun, check_probe, grid, plan_runs, play


def print_plan(args: Sequence[str], options: Sequence[str], seeds: int, out: Path, jobs: int, probe: int) -> None:
    """Prints the plan of a sweep. Raises UserError as `plan_sweep` does."""
    console = progress_console()
    for line in plan_lines(*plan_sweep(args, options, seeds, out, probe), jobs):
        console.print(line)


def plan_sweep(
    args: Sequence[str], options: Sequence[str], seeds: int, out: Path, probe: int
) -> tuple[list[Combination], list[SweepRun]]:
    """Returns the cells and the runs of a sweep.

    Raises ConfigError for a bad grid, RunError if something else is in a run's place, UserError for too large a probe.
    """
    cells = grid(options, configure(args))
    runs = plan_runs(args, cells, seeds, out)
    check_probe(runs, probe)
    return cells, runs


def plan_lines(cells: Sequence[Combination], runs: Sequence[SweepRun], jobs: int) -> list[str]:
    """Returns what will be trained, in lines: the cells, the runs that are left, and how long those will take."""
    lines = [f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'}: {', '.join(cell.name for cell in cells)}"]
    remaining = [run for run in runs if not run.done]
    steps = sum(run.config.run.steps for run in remaining)
    lines.append(
        f"{len(runs)} runs, {len(runs) - len(remaining)} of them finished; {len(remaining)} to train, {steps} steps"
    )
    # Runs of a sweep are alike, so those that are here say how long a step takes on this machine.
    seconds = [line["seconds"]["total"] for run in runs if run.path.exists() for line in run.lines()]
    if remaining and seconds:
        time = clock(fmean(seconds) * steps / min(jobs, len(remaining)))
        lines.append(f"about {time} at {fmean(seconds):.0f} s a step, as in the steps that are here")
    elif remaining:
        lines.append("how long that takes is known after the first run: its log has a line for each step")
    return lines


def train_runs(runs: Sequence[SweepRun], jobs: int, progress: Console) -> bool:
    """Trains the runs that are not done, and says how each ended; returns False if it was interrupted."""

    def ended(run: SweepRun, seconds: float) -> None:
        end = f"done in {clock(seconds)}" if run.done else f"failed, see {run.log}"
        progress.print(f"{run.cell} seed {run.seed}: {end}")

    return play([run for run in runs if not run.done], jobs, ended)
