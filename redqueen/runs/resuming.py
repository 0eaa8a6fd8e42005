"""Decides whether a run that exists already can go on, and with which settings."""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.config import Config, ConfigError
from redqueen.config.keys import keys
from redqueen.runs.directory import RunDirectory, RunError
from redqueen.runs.files import quoted

CHANGEABLE = (
    "run.steps",
    "run.checkpoint_every",
    "run.keep_last",
    "run.keep_every",
    "run.trackers",
    "run.samples_every",
    "run.recorders",
    "model.workers",
    "model.threads",
    "model.device",
    "sandbox.workers",
    "sandbox.unsafe_no_isolation",
    "cluster.address",
    "cluster.replicas",
)
"""The settings that a resumed run may change: they decide how long and where it runs, not what it computes."""

# A line has room for so many differing settings.
_LISTED = 6


def remaining(directory: RunDirectory, overrides: Sequence[str] = ()) -> Config | None:
    """Returns the configuration to resume with, or None if nothing is left to do.

    Raises RunError if the directory holds no run, ConfigError for an override that is not among `CHANGEABLE`.
    """
    for override in overrides:
        key = override.partition("=")[0].strip().lstrip("-")
        if "=" not in override or (key in set(keys(Config)) and key not in CHANGEABLE):
            # Other settings would make the second half of the run another experiment than the first.
            raise ConfigError(
                f"'{override}' cannot change in a resumed run, only {', '.join(CHANGEABLE)}: start a new run for it"
            )
    config = directory.config().override(overrides)
    saved = directory.saved()
    if not saved:
        raise RunError(f"{directory.path} has no checkpoint, so nothing was trained there: start the run again")
    return None if saved[-1] >= config.run.steps else config


def check_same(directory: RunDirectory, asked: Config) -> None:
    """Raises RunError, which lists the differing settings, if the directory's run has another configuration."""
    if not (directory.path / "config.json").exists():
        raise RunError(f"{directory.path} is not empty and holds no run: choose another --run DIR")
    different = directory.config().differences(asked)
    if not different:
        return
    listed = ", ".join(f"{key}={_text(old)} (asked: {_text(new)})" for key, old, new in different[:_LISTED])
    more = f" and {len(different) - _LISTED} more" if len(different) > _LISTED else ""
    advice = "choose another --run DIR"
    if [key for key, _, _ in different] == ["run.steps"]:
        advice = f"redqueen train --resume {quoted(directory.path)} --steps {asked.run.steps}, or {advice}"
    raise RunError(f"{directory.path} holds another run, with {listed}{more}; nothing was changed: {advice}")


def _text(value: object) -> str:
    """Returns a value as it is written on the command line."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def how_to_resume(directory: RunDirectory) -> str:
    """Returns a sentence about how a run that was stopped goes on."""
    if directory.saved():
        return f"Resume: redqueen train --resume {quoted(directory.path)}"
    return "Nothing was trained yet, so nothing is kept: start again with the same command."
