"""Decides and says what can be done about a run that exists already."""

# No import here may load torch: these answers come at once (see `redqueen.cli`).

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from redqueen.config import Config, ConfigError
from redqueen.config.keys import keys
from redqueen.runs.directory import RunDirectory, RunError

CHANGEABLE = (
    "run.steps",
    "run.checkpoint_every",
    "run.keep_last",
    "run.keep_every",
    "run.trackers",
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


def quoted(path: Path | str) -> str:
    """Returns a path as a shell takes it: a name with spaces or other signs is quoted."""
    return shlex.quote(str(path))


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


def describe(directory: RunDirectory, asked: int | None = None) -> int:
    """Prints what is in a run directory and what can be done with it; returns 0 if the run is complete, else 1.

    `asked` is the number of steps that a resume asked for and that are done already.
    """
    console = Console(soft_wrap=True, markup=False, emoji=False, highlight=False)
    path = quoted(directory.path)
    config = directory.config()
    saved = directory.saved()
    # What has no checkpoint is not done: a resume would play it again.
    done = saved[-1] if saved else 0
    steps = config.run.steps
    console.print(
        f"{directory.path} holds a run of '{config.recipe}' with {done} of {steps} steps done; nothing was changed."
    )
    if asked is not None and asked < done:
        console.print(
            f"  --steps {asked} asks for fewer than are done: a run can only go on. redqueen eval {path} --step N"
        )
        console.print("                evaluates an earlier checkpoint")
    if done < steps and saved:
        console.print(f"  resume:       redqueen train --resume {path}")
    if saved:
        console.print(f"  extend:       redqueen train --resume {path} --steps {max(done, steps) + 10}")
    console.print(f"  start again:  add --run runs/ANOTHER to the command, or move {path} away")
    return 0 if done >= steps else 1


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
