"""`redqueen train`: a new run, or the rest of one that was stopped."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from rich.console import Console

from redqueen.commands.surroundings import environment, quiet_libraries
from redqueen.config import Config, ConfigError
from redqueen.display import LineReporter, LiveReporter, clock, members_table
from redqueen.policy.base import check_fit, load
from redqueen.recipes import RECIPES, recipe
from redqueen.runs import checkpoint
from redqueen.runs.directory import RunDirectory, RunError
from redqueen.train import Trainer, members
from redqueen.verifier import LocalVerifier

console = Console()


def configure(args: Sequence[str], steps: int | None, model: str | None) -> Config:
    """The configuration that the command line means. Raises ConfigError."""
    name, overrides = "quickstart", list(args)
    if overrides and "=" not in overrides[0]:
        name = overrides.pop(0)
    if model is not None:
        overrides.append(f"model.name={model}")
    if steps is not None:
        overrides.append(f"run.steps={steps}")
    return recipe(name).override(overrides)


def start(args: Sequence[str], run: Path | None, steps: int | None, model: str | None, dry_run: bool) -> int:
    """A new run; returns the exit code. An existing run is described and left alone."""
    config = configure(args, steps, model)
    if dry_run:
        console.print_json(config.model_dump_json())
        return 0
    directory = RunDirectory(run or Path("runs") / config.recipe)
    if directory.exists:
        return describe(directory)
    quiet_libraries()
    check_fit(config.model, members(config))
    return _train(config, directory, resuming=False)


def take_up(path: Path, steps: int | None, args: Sequence[str], model: str | None) -> int:
    """The rest of the run in `path`, or `steps` in all; returns the exit code."""
    if args or model:
        raise ConfigError("a resumed run keeps its directory and configuration: only --steps may be given")
    directory = RunDirectory(path)
    config = directory.config()
    if steps is not None:
        config = config.override([f"run.steps={steps}"])
    saved = checkpoint.steps(directory.checkpoints)
    if saved and saved[-1] >= config.run.steps:
        return describe(directory)
    quiet_libraries()
    return _train(config, directory, resuming=True)


def describe(directory: RunDirectory) -> int:
    """Says what is in a run directory and what can be done with it; 0 if the run is complete."""
    path = directory.path
    try:
        config = directory.config()
    except RunError:
        if RECIPES and not (path / "config.json").exists():
            raise RunError(f"{path} holds something that is no run: choose another --run DIR") from None
        raise
    saved = checkpoint.steps(directory.checkpoints)
    done, steps = (saved[-1] if saved else 0), config.run.steps
    console.print(f"{path} holds a run of '{config.recipe}' with {done} of {steps} steps done; nothing was changed.")
    if done < steps and saved:
        console.print(f"  resume:       redqueen train --resume {path}")
    if saved:
        console.print(f"  extend:       redqueen train --resume {path} --steps {max(done, steps) + 10}")
    console.print(f"  start afresh: redqueen train {config.recipe} --run runs/ANOTHER (or move {path} away)")
    return 0 if done >= steps else 1


def _train(config: Config, directory: RunDirectory, *, resuming: bool) -> int:
    console.print(f"loading {config.model.name} ...")
    base = load(config.model)
    with LocalVerifier(config.sandbox) as verifier:
        if resuming:
            directory.set_config(config)
        else:
            directory.create(config, environment(base, verifier.tier))
        directory.lock()
        reporter = (LiveReporter if console.is_terminal else LineReporter)(console, config.run.steps)
        with closing(Trainer(config, base, verifier, directory, reporter)) as trainer:
            if resuming:
                trainer.restore(_newest(directory))
                console.print(f"resuming at step {trainer.next_step} of {config.run.steps}")
            else:
                console.print(f"checking the seed programs in the sandbox ({verifier.tier} isolation) ...")
                trainer.begin()
            return _finish(trainer, directory, reporter)


def _finish(trainer: Trainer, directory: RunDirectory, reporter: LiveReporter | LineReporter) -> int:
    path = directory.path
    try:
        with reporter:
            trainer.run()
    except KeyboardInterrupt:
        console.print(f"\nstopped; the unfinished step was dropped. Resume: redqueen train --resume {path}")
        return 130
    except (OSError, sqlite3.Error) as error:
        raise RunError(f"cannot write {path}: {error}; mend that, then: redqueen train --resume {path}") from error
    lines = directory.metrics()
    seconds = sum(line["seconds"]["total"] for line in lines)
    console.print(f"\ndone: {len(lines)} steps in {clock(seconds)}, in {path}")
    console.print(members_table(lines[-1]))
    console.print(f"export the best student: redqueen export {path} best-student OUT")
    return 0


def _newest(directory: RunDirectory) -> checkpoint.Checkpoint:
    saved = checkpoint.steps(directory.checkpoints)
    if not saved:
        raise RunError(f"{directory.path} has no checkpoint: move it away and start afresh")
    return checkpoint.load(directory.checkpoints, saved[-1])
