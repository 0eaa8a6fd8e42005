"""`redqueen train`: a new run, or the rest of one that was stopped."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from rich.console import Console

from redqueen.commands.surroundings import environment, quiet_libraries
from redqueen.config import Config
from redqueen.display import LineReporter, LiveReporter, clock, members_table
from redqueen.policy.base import check_fit, load
from redqueen.runs import checkpoint
from redqueen.runs.directory import RunDirectory, RunError
from redqueen.train import Trainer, members
from redqueen.verifier import LocalVerifier

console = Console(soft_wrap=True)


def start(config: Config, directory: RunDirectory) -> int:
    """A new run; returns the exit code. Raises UserError."""
    quiet_libraries()
    check_fit(config.model, members(config))
    return _train(config, directory, resuming=False)


def take_up(config: Config, directory: RunDirectory) -> int:
    """The rest of the run in `directory`; returns the exit code. Raises UserError."""
    quiet_libraries()
    return _train(config, directory, resuming=True)


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
    saved = directory.saved()
    if not saved:
        raise RunError(f"{directory.path} has no checkpoint: move it away and start afresh")
    return checkpoint.load(directory.checkpoints, saved[-1])
