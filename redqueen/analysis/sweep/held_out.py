"""The score of a finished run's last students on seed programs, which no teacher of the run wrote.

Solve rates within a run are measured against its own opponents, so they cannot be compared between runs. This one can.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import fmean

from redqueen.analysis.replay import load_step, open_replay
from redqueen.analysis.sweep.runs import SweepRun
from redqueen.errors import UserError
from redqueen.evals.held_out import HeldOutEvaluation, scores
from redqueen.runs.directory import RunDirectory, write_json
from redqueen.self_play import seed_tasks


def held_out_score(run: SweepRun, tasks: int, on_start: Callable[[], None]) -> float:
    """Returns the mean solve rate of the run's last students on `tasks` seed programs.

    It is measured once and kept in seed-N.probe.json next to the run; `on_start` is called only before a measurement.
    Raises UserError if the base cannot be loaded, or the sandbox failed on every attempt.
    """
    file = run.path.with_name(f"{run.path.name}.probe.json")
    steps = run.config.run.steps
    if file.exists():
        # The score belongs to one step and one number of tasks: a sweep that was prolonged measures again.
        measured = json.loads(file.read_text())
        if (measured["tasks"], measured["step"]) == (tasks, steps):
            return fmean(measured["scores"].values())
    on_start()
    by_member = _measure(run, tasks)
    write_json(file, {"tasks": tasks, "step": steps, "scores": by_member})
    return fmean(by_member.values())


def _measure(run: SweepRun, tasks: int) -> dict[str, float]:
    """Returns the solve rate of each student. Raises UserError."""
    directory = RunDirectory(run.path)
    steps = run.config.run.steps
    # an earlier sweep may have played more steps; the checkpoint at exactly this one may be gone
    saved = load_step(directory, steps if steps in directory.saved() else None)
    league = run.config.league.model_copy(update={"held_out_tasks": tasks})
    config = run.config.model_copy(update={"league": league})
    students = [member.name for member in saved.population.members.values() if member.role != "teacher"]
    with open_replay(config, saved, len(students)) as replay:
        for name in students:
            replay.policy.join(name, saved.adapters[name])
        play = replay.self_play
        fixed = HeldOutEvaluation(config, seed_tasks(play.verifier), play.prompts, play.sampler, play.verifier)
        by_member = scores(fixed.attempt(students))
    if not by_member:
        raise UserError("the sandbox failed on every attempt: see redqueen doctor")
    return by_member
