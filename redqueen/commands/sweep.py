"""`redqueen sweep`: a grid of overrides and seeds as ordinary runs, and their means with intervals.

OUT/CELL/seed-N is a run directory, seed-N.log beside it what its process printed, OUT/sweep.json the table.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table

from redqueen.analysis.replay import load_step, opened
from redqueen.analysis.sweep.table import Cell, Row, grid, rows
from redqueen.commands.environment import quiet_libraries
from redqueen.commands.retention import range_of
from redqueen.config import Config
from redqueen.errors import UserError
from redqueen.evals.held_out import HeldOutEvaluation, scores
from redqueen.intervals import Interval
from redqueen.recipes import configure
from redqueen.recording.terminal import clock
from redqueen.runs.directory import RunDirectory, RunError, write_json
from redqueen.runs.metrics import StepMetrics
from redqueen.self_play import seed_tasks

NOTES = """\
final: mean over the last quarter of the steps; mean: over all; [..]: 95 % intervals over seeds (Student's t).
Differences are from the first cell, paired by seed. solve, valid, contested and novel are measured against the run's
own opponents, so they do not show who is better; probe is the solve rate of the last students on seed programs."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a sweep. `args` are those of `redqueen train`, `config` what they mean."""

    cell: str
    seed: int
    args: tuple[str, ...]
    config: Config
    path: Path

    @property
    def log(self) -> Path:
        return self.path.with_name(f"{self.path.name}.log")

    @property
    def done(self) -> bool:
        saved = RunDirectory(self.path).saved()
        return bool(saved) and saved[-1] >= self.config.run.steps


def run_sweep(
    args: Sequence[str], options: Sequence[str], seeds: int, out: Path, jobs: int, probe: int, *, as_json: bool
) -> int:
    """Plays what is left of the sweep and prints its table; returns the exit code. Raises UserError."""
    start = configure(args)
    cells = grid(options, start)
    planned = [_job(args, cell, start.run.seed + i, out) for cell in cells for i in range(seeds)]
    for job in planned:
        _check(job)
    talk = Console(stderr=True, highlight=False, soft_wrap=True)
    if not _play([job for job in planned if not job.done], len(planned), jobs, talk):
        talk.print("stopped: the same command goes on where this one was")
        return 130
    finished = [job for job in planned if job.done]
    lines = {cell.name: {j.seed: _lines(j) for j in finished if j.cell == cell.name} for cell in cells}
    probes = {cell.name: dict[int, float]() for cell in cells}
    if probe:
        quiet_libraries()
        for job in finished:
            probes[job.cell][job.seed] = _probe(job, probe, talk)
    found = rows(lines, probes)
    failed = [job for job in planned if not job.done]
    data = {
        "args": list(args),
        "grid": list(options),
        "runs": [{"cell": j.cell, "seed": j.seed, "path": str(j.path), "done": j.done} for j in planned],
        "probe_tasks": probe,
        "probes": probes,
        "rows": [asdict(row) for row in found],
    }
    write_json(out / "sweep.json", data)
    if as_json:
        print(json.dumps(data, indent=1))
    else:
        _show(found, cells)
    for job in failed:
        talk.print(f"not finished: {job.cell} seed {job.seed}, see {job.log}")
    return 1 if failed else 0


def _job(args: Sequence[str], cell: Cell, seed: int, out: Path) -> Job:
    full = (*args, *cell.overrides, f"run.seed={seed}")
    return Job(cell.name, seed, full, configure(full), out / cell.name / f"seed-{seed}")


def _check(job: Job) -> None:
    """Raises RunError if something else is in the run's place."""
    directory = RunDirectory(job.path)
    if not directory.exists:
        return
    theirs, ours = (
        c.model_dump() | {"run": c.run.model_dump() | {"steps": 0}} for c in (directory.config(), job.config)
    )
    if theirs != ours:
        raise RunError(f"{job.path} holds a run with another configuration: choose another --out")


def _play(left: Sequence[Job], total: int, jobs: int, talk: Console) -> bool:
    """Plays `left`, `jobs` at a time; False if somebody interrupted."""
    if left:
        talk.print(f"{total - len(left)} of {total} runs are finished, {len(left)} to go")
    pool = ThreadPoolExecutor(jobs)
    try:
        for job, seconds in zip(left, pool.map(_train, left), strict=True):
            how = f"done in {clock(seconds)}" if job.done else f"failed, see {job.log}"
            talk.print(f"{job.cell} seed {job.seed}: {how}")
    except KeyboardInterrupt:
        # those that run have had the same signal, and save what they can
        pool.shutdown(cancel_futures=True)
        return False
    pool.shutdown()
    return True


def _train(job: Job) -> float:
    """One run in a process of its own, begun or resumed; returns the seconds it took."""
    directory, begin = RunDirectory(job.path), time.monotonic()
    command = [sys.executable, "-m", "redqueen", "train"]
    if directory.saved():
        command += ["--resume", str(job.path), "--steps", str(job.config.run.steps)]
    else:
        if directory.exists:
            # it was killed before its first checkpoint: nothing was trained, and `train` wants an empty folder
            directory.lock()
            shutil.rmtree(job.path)
            directory.unlock()
        command += [*job.args, "--run", str(job.path)]
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("a") as log:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
    return time.monotonic() - begin


def _lines(job: Job) -> list[StepMetrics]:
    """The steps that were asked for; an older sweep may have played more."""
    return [line for line in RunDirectory(job.path).metrics() if line["step"] < job.config.run.steps]


def _probe(job: Job, tasks: int, talk: Console) -> float:
    """The mean solve rate of the last students on `tasks` seed programs; kept beside the run, so measured once."""
    kept = job.path.with_name(f"{job.path.name}.probe.json")
    steps = job.config.run.steps
    if kept.exists():
        found = json.loads(kept.read_text())
        if (found["tasks"], found["step"]) == (tasks, steps):
            return fmean(found["scores"].values())
    talk.print(f"{job.cell} seed {job.seed}: {tasks} seed programs")
    directory = RunDirectory(job.path)
    saved = load_step(directory, None if steps not in directory.saved() else steps)
    league = job.config.league.model_copy(update={"held_out_tasks": tasks})
    config = job.config.model_copy(update={"league": league})
    names = [m.name for m in saved.population.members.values() if m.role != "teacher"]
    with opened(config, saved, len(names)) as loaded:
        for name in names:
            loaded.policy.join(name, saved.adapters[name])
        play = loaded.self_play
        fixed = HeldOutEvaluation(config, seed_tasks(play.verifier), play.prompts, play.sampler, play.verifier)
        found = scores(fixed.attempt(names))
    if not found:
        raise UserError("the sandbox failed on every attempt: see redqueen doctor")
    write_json(kept, {"tasks": tasks, "step": steps, "scores": found})
    return fmean(found.values())


def _show(found: Sequence[Row], cells: Sequence[Cell]) -> None:
    wide = Console(highlight=False)
    console = wide if wide.is_terminal else Console(highlight=False, width=240)
    table = Table(box=None, pad_edge=False)
    for name in ("metric", "cell", "seeds", "final", "mean", "final - first cell", "mean - first cell"):
        table.add_column(name, no_wrap=True)
    for i, row in enumerate(found):
        table.add_row(
            row.metric.removesuffix("_rate") if i % len(cells) == 0 else "",
            row.cell,
            str(row.final.n if row.final else 0),
            _rate(row.final),
            _rate(row.mean),
            range_of(row.final_over),
            range_of(row.mean_over),
        )
    console.print(table)
    console.print(NOTES, soft_wrap=True)


def _rate(found: Interval | None) -> str:
    """A mean rate with its interval: `0.43 [0.35, 0.51]`."""
    return range_of(found).replace("+", "")
