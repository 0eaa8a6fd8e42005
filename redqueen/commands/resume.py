"""Decides and says what can be done about a run that exists already."""

# No import here may load torch: these answers come at once (see `redqueen.cli`).

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from redqueen.config import Config
from redqueen.runs.directory import RunDirectory


def remaining(directory: RunDirectory, steps: int | None, overrides: Sequence[str] = ()) -> Config | None:
    """Returns the configuration to resume with, or None if nothing is left to do.

    `steps` is the new number of steps in all. `overrides` are for keys that do not change a run's results, such as the
    number of processes.
    Raises RunError if the directory holds no run, ConfigError if `steps` is impossible.
    """
    config = directory.config().override(overrides)
    if steps is not None:
        config = config.override([f"run.steps={steps}"])
    saved = directory.saved()
    return None if saved and saved[-1] >= config.run.steps else config


def describe(directory: RunDirectory) -> int:
    """Prints what is in a run directory and what can be done with it; returns 0 if the run is complete, else 1."""
    console = Console(soft_wrap=True)
    path = directory.path
    config = directory.config()
    saved = directory.saved()
    # What has no checkpoint is not done: a resume would play it again.
    done = saved[-1] if saved else 0
    steps = config.run.steps
    console.print(f"{path} holds a run of '{config.recipe}' with {done} of {steps} steps done; nothing was changed.")
    if done < steps and saved:
        console.print(f"  resume:       redqueen train --resume {path}")
    if saved:
        console.print(f"  extend:       redqueen train --resume {path} --steps {max(done, steps) + 10}")
    console.print(f"  start again:  redqueen train {config.recipe} --run runs/ANOTHER (or move {path} away)")
    return 0 if done >= steps else 1
