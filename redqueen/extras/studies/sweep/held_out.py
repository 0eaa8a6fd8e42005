"""The score of a finished run's last students on reserved programs, which no training and no selection has seen.

Solve rates within a run are in sample, and measured against its own opponents, so they cannot be compared between runs.
This one can.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import fmean

from redqueen import __version__
from redqueen.analysis.replay import load_step, open_replay
from redqueen.errors import UserError
from redqueen.evals.held_out import run_evaluation
from redqueen.extras.studies.sweep.runs import HALF, SweepRun
from redqueen.method.rewards import scores
from redqueen.store.directory import RunDirectory, write_json


def held_out_score(run: SweepRun, tasks: int, on_start: Callable[[], None]) -> float:
    """Returns the mean solve rate of the run's last students on `tasks` reserved tasks.

    It is measured once and kept in seed-N.probe.json next to the run; `on_start` is called only before a measurement.
    Raises RunError if the checkpoint of the sweep's last step is gone, UserError if the base cannot be loaded, or the
    sandbox failed on every attempt.
    """
    file = run.path.with_name(f"{run.path.name}.probe.json")
    steps = run.config.run.steps
    # A score belongs to one step and these tasks: a sweep that was prolonged measures again, and so does a release that
    # may have other programs.
    wanted = {
        "programs": f"reserved, {HALF}",
        "release": __version__,
        "kinds": run.probed,
        "tasks": tasks,
        "step": steps,
    }
    if file.exists():
        measured = json.loads(file.read_text())
        by_member = measured.pop("scores")
        if measured == wanted:
            return fmean(by_member.values())
    on_start()
    by_member = _measure(run, tasks)
    write_json(file, {**wanted, "scores": by_member})
    return fmean(by_member.values())


def _measure(run: SweepRun, tasks: int) -> dict[str, float]:
    """Returns the solve rate of each student. Raises UserError, RunError."""
    # An earlier sweep may have played more steps, and the checkpoint of this one may be gone. No other stands for it.
    saved = load_step(RunDirectory(run.path), run.config.run.steps)
    students = [member.name for member in saved.population.members.values() if member.role != "teacher"]
    with open_replay(run.config, saved, len(students)) as replay:
        for name in students:
            replay.policy.join(name, saved.adapters[name])
        play = replay.self_play
        fixed = run_evaluation(run.config, HALF, run.probed, tasks, play.prompts, play.sampler, play.verifier)
        by_member = scores(fixed.attempt(students))
    if not by_member:
        raise UserError("the sandbox failed on every attempt: see redqueen doctor")
    return by_member
