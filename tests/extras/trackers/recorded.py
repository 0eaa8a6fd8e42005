"""A run's folder to which steps are recorded as a trainer does it: metrics.jsonl first, then its trackers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from redqueen.config import Config
from redqueen.method.played_step import PlayedStep
from redqueen.run.recording.files import MetricsRecorder
from redqueen.run.recording.recorder import Session, open_trackers
from redqueen.store.directory import RunDirectory
from tests.run.recording.steps import full


def config(*trackers: str) -> Config:
    return Config().override([f"run.trackers={','.join(trackers)}", "run.samples_every=2"])


def new_run(folder: Path, *trackers: str) -> RunDirectory:
    directory = RunDirectory(folder / "runs" / "mine")
    directory.create(config(*trackers), {})
    return directory


def session(directory: RunDirectory, first: int, last: int) -> list[str]:
    """Records the steps from `first` to `last` with all trackers of the run. Returns the lines that were printed."""
    said: list[str] = []
    trackers = open_trackers(Session(directory=directory, config=directory.config(), first=first, say=said.append))
    for step in range(first, last + 1):
        record = full()
        record = replace(record, played=PlayedStep(step=step, matches=record.played.matches))
        MetricsRecorder(directory).record(record)
        for tracker in trackers:
            tracker.record(record)
    for tracker in trackers:
        tracker.close()
    return said


# Numbers of `full()`, by the names that trackers give them.
EXPECTED = {
    "solve_rate": 0.5,
    "valid_rate": 0.5,
    "par/code_o": 0.75,
    "loss/T0": 0.5,
    "matches": 1.0,
    "members/T0/mu": 26.0,
}
# Nothing was averaged here, so there is no such curve.
NULL = "solve_rate_by_kind/code_f"
# The only valid task of `full()`, a row of the table that trackers get in every second step.
ROW = {
    "id": "4.0.code_o.0",
    "kind": "code_o",
    "author": "T0",
    "student": "S0",
    "solve_rate": 0.5,
    "teacher_reward": 0.5,
    "program": "def f(x):\n    return x",
    "message": "",
    "inputs": "1",
    "outputs": "1",
    "attempts": "correct, paid 1.0:\n1\n\nwrong, paid -0.5:\n1\n\ninfra_error, paid None:\n1",
}
