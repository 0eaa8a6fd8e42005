"""`redqueen train`: trains a new run, or the rest of a run that was stopped."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from rich.console import Console
from rich.table import Column, Table

from redqueen.commands.environment import check_memory, environment, quiet_libraries
from redqueen.config import BUNDLED, Config
from redqueen.errors import ModelError
from redqueen.evals.held_out import check_held_out
from redqueen.game.prompt_lengths import prompt_lengths
from redqueen.policy.memory.estimate import estimate, least, total
from redqueen.policy.model.base import fingerprint, load
from redqueen.policy.model.bundled import cached
from redqueen.policy.model.dimensions import token_counter
from redqueen.recording.terminal import LineReporter, LiveReporter, clock, members_table
from redqueen.runs import checkpoint
from redqueen.runs.directory import RunDirectory, RunError
from redqueen.train import Trainer, members
from redqueen.verifier import LocalVerifier

console = Console(soft_wrap=True)


def print_memory(config: Config) -> None:
    """Prints on standard error how much memory a run would need. Nothing is downloaded or converted for it."""
    quiet_libraries()
    # Standard output is for the configuration, which is JSON and may be piped into another program.
    errors = Console(stderr=True, soft_wrap=True)
    if config.model.name == BUNDLED and cached() is None:
        errors.print("memory: not estimated, the bundled model is not converted yet: the first run does that")
        return
    try:
        lengths = prompt_lengths(config, token_counter(config.model, download=False))
        items = estimate(config, lengths, members(config), download=False)
        required = estimate(least(config), lengths, members(config), download=False)
    except ModelError as error:
        errors.print(f"memory: not estimated, {error}", markup=False)
        return
    table = Table("memory, at most", Column("processes", justify="right"), Column("MB", justify="right"), box=None)
    for item in items:
        table.add_row(item.name, str(item.processes), f"{item.total / 1e6:,.0f}")
    table.add_row("in all", "", f"{total(items) / 1e6:,.0f}")
    table.add_row("in all, at least (every text is short)", "", f"{total(required) / 1e6:,.0f}")
    errors.print(table)


def start_run(config: Config, directory: RunDirectory) -> int:
    """Trains a new run; returns the exit code. Raises UserError."""
    check_memory(config, members(config), console)
    return _train(config, directory, resuming=False)


def resume_run(config: Config, directory: RunDirectory) -> int:
    """Trains the rest of the run in `directory`; returns the exit code. Raises UserError."""
    # It may be on another machine now, or have another number of workers.
    check_memory(config, members(config), console)
    return _train(config, directory, resuming=True)


def warnings_about(config: Config) -> list[str]:
    """Returns one line for each setting that is allowed and that a person may not mean."""
    warnings: list[str] = []
    if config.sampling.truncates:
        warnings.append(
            "warning: with sampling.top_p below 1 or sampling.top_k above 0 members sample from fewer tokens than the "
            "learner's gradient is computed for: they learn off-policy (docs/ALGORITHM.md)"
        )
    return warnings


def _train(config: Config, directory: RunDirectory, *, resuming: bool) -> int:
    """Trains, and turns what can stop a run into a line that says how to go on. Returns the exit code."""
    check_held_out(config)
    for warning in warnings_about(config):
        console.print(warning, highlight=False)
    console.print(f"loading {config.model.name} ...")
    base = load(config.model)
    base_fingerprint = fingerprint(base.model)
    try:
        with LocalVerifier(config.sandbox, config.game.min_inputs, config.run.seed) as verifier:
            # The directory is made only now: a base that cannot be loaded or a machine without isolation leaves no
            # empty run behind, which the next attempt would refuse to write into.
            if not resuming:
                directory.create(config, environment(base, base_fingerprint, verifier.tier))
            directory.lock()
            # Only the owner of the lock may write: the longer run of --steps goes into config.json after it.
            if resuming:
                directory.set_config(config)
            reporter = (LiveReporter if console.is_terminal else LineReporter)(console, config.run.steps)
            with closing(Trainer(config, base, base_fingerprint, verifier, directory, [reporter])) as trainer:
                _begin(trainer, verifier.tier, resuming)
                with reporter:
                    trainer.run()
    except KeyboardInterrupt:
        console.print(f"\nstopped; the unfinished step was dropped. {_how_to_resume(directory)}")
        return 130
    except (OSError, sqlite3.Error) as error:
        raise RunError(f"cannot write {directory.path}: {error}. Fix that. {_how_to_resume(directory)}") from error
    _conclude(directory)
    return 0


def _begin(trainer: Trainer, tier: str, resuming: bool) -> None:
    """Restores the newest checkpoint, or makes the first population."""
    if resuming:
        trainer.restore(_newest(trainer.directory))
        console.print(f"resuming at step {trainer.played + 1} of {trainer.config.run.steps}")
    else:
        console.print(f"checking the seed programs in the sandbox ({tier} isolation) ...")
        trainer.begin()


def _conclude(directory: RunDirectory) -> None:
    """Prints the final population, and the command that a person is most likely to want next."""
    lines = directory.metrics()
    seconds = sum(line["seconds"]["total"] for line in lines)
    console.print(f"\ndone: {len(lines)} steps in {clock(seconds)}, in {directory.path}")
    console.print(members_table(lines[-1]))
    console.print(f"export the best student: redqueen export {directory.path} best-student OUT")


def _how_to_resume(directory: RunDirectory) -> str:
    if directory.saved():
        return f"Resume: redqueen train --resume {directory.path}"
    return f"Nothing was trained yet: remove {directory.path} and start again."


def _newest(directory: RunDirectory) -> checkpoint.Checkpoint:
    saved = directory.saved()
    if not saved:
        raise RunError(f"{directory.path} has no checkpoint: move it away and start again")
    return checkpoint.load(directory.checkpoints, saved[-1])
