"""What to do about a run that is there already. Imports no torch, so that the answer comes at once."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from redqueen.config import Config
from redqueen.runs.directory import RunDirectory


def remaining(directory: RunDirectory, steps: int | None, overrides: Sequence[str] = ()) -> Config | None:
    """The configuration to go on with, for `steps` in all if given; None if nothing is left to do.

    `overrides` are for what does not change the run's course, such as the number of processes.

    Raises RunError if the directory holds no run, ConfigError if `steps` is impossible.
    """
    config = directory.config().override(overrides)
    if steps is not None:
        config = config.override([f"run.steps={steps}"])
    saved = directory.saved()
    return None if saved and saved[-1] >= config.run.steps else config


def describe(directory: RunDirectory) -> int:
    """Says what is in a run directory and what can be done with it; 0 if the run is complete."""
    path = directory.path
    config = directory.config()
    saved = directory.saved()
    done, steps = (saved[-1] if saved else 0), config.run.steps
    Console(soft_wrap=True).print(
        f"{path} holds a run of '{config.recipe}' with {done} of {steps} steps done; nothing was changed."
    )
    if done < steps and saved:
        Console(soft_wrap=True).print(f"  resume:       redqueen train --resume {path}")
    if saved:
        Console(soft_wrap=True).print(f"  extend:       redqueen train --resume {path} --steps {max(done, steps) + 10}")
    Console(soft_wrap=True).print(
        f"  start afresh: redqueen train {config.recipe} --run runs/ANOTHER (or move {path} away)"
    )
    return 0 if done >= steps else 1
