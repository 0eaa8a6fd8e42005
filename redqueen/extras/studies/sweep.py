"""A sweep: its grid, what it is going to train, and its runs, in folders of their own. Imports no torch."""

# No import here may load torch: a grid that is refused is refused at once (see `redqueen.cli.app`).

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from redqueen.base.machine import clock, on_sigterm
from redqueen.config import Config, ConfigError
from redqueen.config.recipes import configure, match_compute
from redqueen.errors import UserError
from redqueen.evals.held_out import most_tasks
from redqueen.method.seeds import Half
from redqueen.run.recording.plain_console import progress_console
from redqueen.store.directory import RunDirectory, RunError
from redqueen.store.metrics import StepMetrics
from redqueen.tasks.kinds import held_out_kinds


@dataclass(frozen=True, slots=True)
class Combination:
    """One point of the grid."""

    name: str
    """The name of its folder."""
    overrides: tuple[str, ...]
    """What it changes, e.g. `("evolution.enabled=true", "learning.lr=1e-4")`."""


def grid(options: Sequence[str], start: Config) -> list[Combination]:
    """Returns the cells of `KEY=VALUE,VALUE,...` options: every combination, the last option changing fastest.

    A value with commas goes in brackets: `evolution.mutations=[svd_spectral,neftune],[copy_parent]`. No option is one
    cell. The key `matched` has the values of `match_compute`: a population and its single agents as arms.
    Raises ConfigError for what cannot be read, or cannot be applied to `start`.
    """
    axes: dict[str, list[str]] = {}
    for option in options:
        key, values = _axis(option)
        if key in axes:
            raise ConfigError(f"--grid {key} is given twice: write all its values in one")
        _check(key, values, start)
        axes[key] = values
    cells: list[Combination] = []
    for values in itertools.product(*axes.values()):
        overrides = tuple(f"{key}={value}" for key, value in zip(axes, values, strict=True))
        cells.append(Combination(_folder(overrides), overrides))
    # Characters that a file system does not allow are replaced in a name, so two cells can end up with one name. They
    # would then train in one folder.
    if len({cell.name for cell in cells}) < len(cells):
        raise ConfigError("--grid: two cells would share a folder: leave out a value that is given twice")
    return cells


def _axis(option: str) -> tuple[str, list[str]]:
    """Returns a key and its values. Raises ConfigError."""
    key, equals, text = (part.strip() for part in option.partition("="))
    if not equals:
        raise ConfigError(f"--grid {option}: write KEY=VALUE,VALUE, e.g. --grid evolution.enabled=true,false")
    if key == "run.seed":
        raise ConfigError("--grid run.seed: --seeds N says how many seeds each cell has")
    return key, _values(key, text)


def _values(key: str, text: str) -> list[str]:
    """Splits at commas outside brackets: `a,[b,c]` is "a" and "[b,c]". Raises ConfigError."""
    values = re.findall(r"(?:^|,)\s*(\[[^\[\]]*\]|[^,\[\]]+?)\s*(?=,|$)", text)
    # The pattern skips what it cannot read, so the text is rebuilt from the values and compared.
    rebuilt = re.sub(r"\s", "", ",".join(values))
    if not values or rebuilt != re.sub(r"\s", "", text):
        raise ConfigError(
            f"--grid {key}={text}: values are separated by commas, and one that holds commas goes in brackets, "
            "e.g. evolution.mutations=[svd_spectral,neftune],[copy_parent]"
        )
    return values


def _check(key: str, values: Sequence[str], start: Config) -> None:
    """Raises ConfigError for an unknown key, an impossible value, or a list without brackets."""
    # A sweep takes hours or days. A wrong value in its last cell has to be reported before the first cell starts.
    if key == "matched":
        for value in values:
            match_compute(start, value)
        return
    for value in values:
        start.override([f"{key}={value}"])
    current: Any = start
    for name in key.split("."):
        current = getattr(current, name)
    # Without brackets, key=a,b would mean two cells with one name each, where one list of both names may be meant.
    if isinstance(current, tuple) and any(not value.startswith("[") for value in values):
        raise ConfigError(
            f"--grid {key}: this key holds a list, so each value goes in brackets, e.g. {key}=[{','.join(values)}]"
        )


def _folder(overrides: Sequence[str]) -> str:
    """Returns a cell's name on disk: as typed, as far as the file system allows it."""
    typed = " ".join(overrides).replace("[", "").replace("]", "")
    return re.sub(r"[^A-Za-z0-9._=,+-]+", "_", typed) or "all"


# The runs of a sweep: each is an ordinary run in a process of its own. Imports no torch.
#
# OUT/CELL/seed-N is a run directory, and seed-N.log next to it holds what its process printed.

HALF: Half = "report"
"""The reserved programs that sweeps measure on. The other half may be what a run selected its students by."""


@dataclass(frozen=True, slots=True)
class SweepRun:
    """One run of a sweep."""

    cell: str
    seed: int
    args: tuple[str, ...]
    """The arguments of its `redqueen train`."""
    config: Config
    """What `args` mean."""
    path: Path

    @property
    def probed(self) -> list[str]:
        """The kinds of the reserved tasks of `--probe`, in an order that is not the run's: it decides what is asked."""
        return sorted(held_out_kinds(self.config.game.kinds))

    @property
    def log(self) -> Path:
        return self.path.with_name(f"{self.path.name}.log")

    @property
    def done(self) -> bool:
        saved = RunDirectory(self.path).saved()
        return bool(saved) and saved[-1] >= self.config.run.steps

    def lines(self) -> list[StepMetrics]:
        """Returns the steps of this sweep from metrics.jsonl; an earlier sweep may have played more."""
        return [line for line in RunDirectory(self.path).metrics() if line["step"] <= self.config.run.steps]


def plan_runs(args: Sequence[str], cells: Sequence[Combination], seeds: int, out: Path) -> list[SweepRun]:
    """Returns the runs of all cells, each with `seeds` seeds from run.seed on.

    Raises ConfigError for an impossible configuration, RunError if something else is in a run's place.
    """
    # All cells have the same seeds, so that two cells are compared seed by seed. Every run is checked before the first
    # one starts.
    first_seed = configure(args).run.seed
    runs: list[SweepRun] = []
    for cell in cells:
        for seed in range(first_seed, first_seed + seeds):
            run_args = _last((*args, *cell.overrides, f"run.seed={seed}"))
            runs.append(SweepRun(cell.name, seed, run_args, configure(run_args), out / cell.name / f"seed-{seed}"))
    for run in runs:
        _check_place(run)
    return runs


def _last(args: Sequence[str]) -> tuple[str, ...]:
    """Returns the arguments with each setting once: a cell's value replaces the one that the sweep was given."""
    by_key = {arg.partition("=")[0].strip().lstrip("-"): arg for arg in args}
    return tuple(by_key.values())


def play(runs: Sequence[SweepRun], jobs: int, on_end: Callable[[SweepRun, float], None]) -> bool:
    """Trains these runs, `jobs` at a time; returns False if it was interrupted (Ctrl-C, or SIGTERM).

    `on_end(run, seconds)` is called for each in the order of `runs`. A run that fails ends like any other: see its log.
    """
    # A run has a process of its own: it has torch's threads and memory for itself, a crash ends only this run, and it
    # is the same command that a person would type. A thread here only waits for its process.
    pool = ThreadPoolExecutor(jobs)
    running: set[subprocess.Popen[bytes]] = set()

    # A terminal sends Ctrl-C to all processes of a command, but SIGTERM goes to this one alone.
    def hand_on() -> None:
        for process in list(running):
            process.terminate()
        raise KeyboardInterrupt

    try:
        with on_sigterm(hand_on):
            for run, seconds in zip(runs, pool.map(partial(_train, running=running), runs), strict=True):
                on_end(run, seconds)
    except KeyboardInterrupt:
        # The runs have the signal as well, and each saves a checkpoint. They are waited for, and no other is started.
        pool.shutdown(cancel_futures=True)
        return False
    pool.shutdown()
    return True


def check_probe(runs: Sequence[SweepRun], tasks: int) -> None:
    """Raises UserError if a run's kinds make fewer than `tasks` tasks: better now than after hours of training."""
    most = min(most_tasks(HALF, run.probed) for run in runs)
    if tasks > most:
        raise UserError(f"--probe {tasks}: there are {most} reserved tasks, choose at most that")


def _check_place(run: SweepRun) -> None:
    """Raises RunError if the run's folder holds a run with another configuration; the number of steps may differ."""
    directory = RunDirectory(run.path)
    if not directory.exists:
        return
    different = [key for key, _, _ in directory.config().differences(run.config) if key != "run.steps"]
    if different:
        raise RunError(f"{run.path} holds a run with another {', '.join(different)}: choose another --out")
    if not directory.saved() and not directory.unstarted:
        raise RunError(
            f"{run.path} has records of a run and no checkpoint to go on from: put its checkpoints back, or move the "
            "folder away to train this run anew"
        )


def _train(run: SweepRun, running: set[subprocess.Popen[bytes]]) -> float:
    """Starts or resumes one run in a process of its own and waits for its end; returns the seconds it took.

    The process is in `running` while it runs.
    """
    directory = RunDirectory(run.path)
    started = time.monotonic()
    command = [sys.executable, "-m", "redqueen", "train"]
    if directory.saved():
        # The sweep's own command line named the modules, and `_check_place` found the same ones in the run.
        command += ["--resume", str(run.path), "--steps", str(run.config.run.steps)]
        command += ["--load-plugins"] * bool(run.config.plugins)
        command += ["--unsafe-no-isolation"] * run.config.sandbox.unsafe_no_isolation
    else:
        if directory.exists and directory.unstarted:
            # It was killed before its first checkpoint: nothing was trained, and `train` wants an empty folder. The
            # lock makes sure that no other process is training there.
            directory.lock()
            shutil.rmtree(run.path)
            directory.unlock()
        command += [*run.args, "--run", str(run.path)]
    run.log.parent.mkdir(parents=True, exist_ok=True)
    # The log is appended to: what an earlier, interrupted sweep printed is still there. A failed run raises nothing,
    # since the other runs of the sweep are still worth their time.
    with run.log.open("a") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        running.add(process)
        process.wait()
        running.discard(process)
    return time.monotonic() - started


# What `redqueen sweep` is going to train, said before anything that takes time is imported.


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
