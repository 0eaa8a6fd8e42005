"""Opens the trackers that `run.trackers` names, and remembers what their libraries know the run by."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from redqueen.config import Config, TrackerName
from redqueen.optional import is_installed, missing
from redqueen.recording.trackers.mlflow import MLflow
from redqueen.recording.trackers.tensorboard import TensorBoard
from redqueen.recording.trackers.tracker import Session, Tracker, failure
from redqueen.recording.trackers.trackio import Trackio
from redqueen.recording.trackers.wandb import WeightsAndBiases
from redqueen.runs.directory import RunDirectory

TRACKERS: dict[TrackerName, type[Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "trackio": Trackio,
    "mlflow": MLflow,
}
assert tuple(TRACKERS) == get_args(TrackerName)


def check_trackers(config: Config) -> None:
    """Raises MissingLibraryError, before anything is loaded or written, if a tracker's library is not installed."""
    # The library and its extra have the tracker's name.
    for name in config.run.trackers:
        if not is_installed(name):
            raise missing(name, name, f"run.trackers={name}")


def open_trackers(config: Config, directory: RunDirectory, first: int, say: Callable[[str], None]) -> list[Tracker]:
    """Returns the trackers that could be opened. `say` gets a line about each: how to look at it, or why it is off.

    `first` is the first step that they will record.
    """
    known = directory.tracker_ids()
    opened: list[Tracker] = []
    for name in config.run.trackers:
        session = Session(directory=directory, config=config, first=first, id=known.get(name), say=say)
        try:
            tracker = TRACKERS[name](session)
        # No login, no network, a full disk, another version: whatever it is, the run can do without.
        except Exception as error:  # noqa: BLE001
            say(failure(name, error))
            continue
        say(f"{name}: {tracker.where}")
        opened.append(tracker)
        if tracker.id is not None:
            known[name] = tracker.id
    if known:
        directory.set_tracker_ids(known)
    return opened
