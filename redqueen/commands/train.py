"""`redqueen train`: trains a new run, or the rest of a run that was stopped."""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Collection, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from redqueen.analysis.dataset.fixed import fixed_tasks
from redqueen.commands.environment import check_memory, environment, session
from redqueen.commands.players import open_players
from redqueen.commands.resume import quoted
from redqueen.config import Config
from redqueen.evals.benchmarks.registry import chosen
from redqueen.evals.held_out import check_held_out
from redqueen.game.reserved import is_reserved
from redqueen.game.reward_probe import check_rewards
from redqueen.game.seeds import seeds_of
from redqueen.machine import clock
from redqueen.policy.vllm.engine import check_engine
from redqueen.recording.held_out import held_out_lines
from redqueen.recording.no_valid import summary
from redqueen.recording.terminal import LEGEND, LineReporter, LiveReporter, members_table
from redqueen.recording.trackers.opening import check_trackers, open_trackers
from redqueen.recording.trackers.tracker import Tracker
from redqueen.runs import checkpoint
from redqueen.runs.archive.reader import ArchiveReader
from redqueen.runs.directory import RunDirectory, RunError
from redqueen.train import Trainer, members

# A path may hold what Rich takes for markup or for an emoji.
console = Console(soft_wrap=True, markup=False, emoji=False)


class Terminated(KeyboardInterrupt):
    """SIGTERM, as batch systems and containers send it. It ends a run as Ctrl-C does."""


def start_run(config: Config, directory: RunDirectory) -> int:
    """Trains a new run; returns the exit code. Raises UserError."""
    # The directory comes first: a second process that wants it is refused before it has loaded anything.
    directory.claim()
    try:
        check_held_out(config)
        check_rewards(config.game)
        check_trackers(config)
        check_engine(config)
        chosen(config.evals.benchmarks)
        fitted = check_memory(config, members(config), console)
        return _train(config, fitted, directory, None)
    except KeyboardInterrupt as stop:
        return _stopped(stop, directory)
    finally:
        # A start that failed leaves nothing behind, which the next one would refuse to write into.
        directory.release()


def resume_run(config: Config, directory: RunDirectory, chosen: Collection[str] = ()) -> int:
    """Trains the rest of the run in `directory`; returns the exit code. Raises UserError.

    `chosen` are the settings that were given for this session.
    """
    directory.lock()
    try:
        # What is damaged or missing is found before anything is loaded or written.
        check_rewards(config.game)
        check_trackers(config)
        check_engine(config)
        saved = checkpoint.load(directory.checkpoints, directory.saved()[-1])
        directory.metrics()
        if not directory.archive.exists():
            raise RunError(f"{directory.archive} is missing: put it back, or start a new run")
        ArchiveReader(directory.archive).close()
        # Other batches and another number of workers round differently. So a run goes on with what it had, if that
        # still fits: it may be on another machine now.
        before: list[str] = []
        if "model.device" not in chosen:
            before = [f"{key}={value}" for key, value in directory.fitted().items() if key not in chosen]
        fitted = check_memory(config.override(before), members(config), console)
        return _train(config, fitted, directory, saved)
    except KeyboardInterrupt as stop:
        return _stopped(stop, directory)
    finally:
        directory.unlock()


def warnings_about(config: Config) -> list[str]:
    """Returns one line for each setting that is allowed and that a person may not mean."""
    warnings: list[str] = []
    if config.sampling.truncates:
        warnings.append(
            "warning: with sampling.top_p below 1 or sampling.top_k above 0 members sample from fewer tokens than the "
            "learner's gradient is computed for: they learn off-policy (docs/ALGORITHM.md)"
        )
    # No shipped seed is reserved.
    if config.game.seeds is not None:
        drafts = seeds_of(config.game)
        reserved = sum(is_reserved(draft.program) for draft in drafts)
        if reserved:
            warnings.append(
                f"warning: {reserved} of {len(drafts)} programs of {config.game.seeds} are alike to held-out ones, up "
                "to names and constants: they are left out"
            )
    return warnings


def _train(config: Config, fitted: Config, directory: RunDirectory, saved: checkpoint.Checkpoint | None) -> int:
    """Trains, and turns what can stop a run into a line that says how to go on. Returns the exit code.

    `fitted` is what runs: `config`, made smaller as free memory asks for it. `saved` is the checkpoint to go on from;
    None starts a new run.
    """
    for warning in warnings_about(config):
        console.print(warning, highlight=False)
    introduce(fitted, directory)
    with _terminable():
        try:
            with open_players(fitted, report) as players:
                if saved is None:
                    # Weights in another number format are other weights. On another processor auto may choose another
                    # one, where the run could neither be resumed nor evaluated.
                    config = config.override([f"model.dtype={players.base.dtype}"])
                    directory.create(config, environment(fitted, players.base, players.tier))
                reporter = (LiveReporter if console.is_terminal else LineReporter)(console, config.run.steps)
                trainer = Trainer(
                    fitted, players.policy, players.base, players.verifier, directory, [reporter], players.spread
                )
                with closing(trainer):
                    _begin(trainer, players.tier, saved)
                    if saved is not None:
                        directory.set_config(config)
                        directory.add_session({**session(fitted), "isolation": players.tier})
                    first = trainer.played + 1
                    # A library may ask for a login, so the live view comes after it.
                    with tracked(config, directory, first) as trackers, reporter:
                        trainer.watchers = (*trainer.watchers, *trackers)
                        trainer.run()
        except (OSError, sqlite3.Error) as error:
            raise RunError(f"cannot write {directory.path}: {error}. Fix that. {_how_to_resume(directory)}") from error
    _conclude(directory)
    return 0


def report(line: str) -> None:
    """Prints what a person should know of the machines of a cluster."""
    console.print(line, style="yellow", highlight=False)


@contextmanager
def tracked(config: Config, directory: RunDirectory, first: int) -> Generator[list[Tracker]]:
    """Opens the run's trackers and closes them at its end, however that comes."""
    trackers = open_trackers(config, directory, first, lambda line: console.print(line, highlight=False))
    try:
        yield trackers
    finally:
        for tracker in trackers:
            tracker.close()


def introduce(config: Config, directory: RunDirectory) -> None:
    """Prints what is about to run, on what, and how to stop it and go on. `config` is as it fits."""
    population = config.population
    who = "1 member in both roles"
    if not population.teachers:
        who = f"{population.students} {'student' if population.students == 1 else 'students'} alone on fixed tasks"
    elif not population.single_agent:
        who = f"{population.teachers} + {population.students} members (teachers + students)"
    workers = "1 process" if config.model.workers == 1 else f"{config.model.workers} worker processes"
    if config.cluster.address:
        workers = f"a Ray cluster ({config.cluster.address})"
    run = config.run
    console.print(f"run: {directory.path}: recipe {config.recipe}, seed {run.seed}, {run.steps} steps, {who}")
    how = f"sampled and trained in {workers}"
    if config.sampling.engine == "vllm":
        how = f"sampled by vLLM, trained in {workers}"
    console.print(f"base: {config.model.name}, {how}; loading ...")
    console.print(f"follow it in a browser: redqueen watch {quoted(directory.path)}", highlight=False)
    console.print(
        f"Ctrl-C stops; finished steps are kept. To go on: redqueen train --resume {quoted(directory.path)}",
        highlight=False,
    )


@contextmanager
def _terminable() -> Generator[None]:
    """Raises Terminated in the main thread when the process gets SIGTERM."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stopped(stop: KeyboardInterrupt, directory: RunDirectory) -> int:
    """Says how to go on; returns the exit code that shells expect of the signal."""
    terminated = isinstance(stop, Terminated)
    dropped = "; the unfinished step was dropped" if directory.saved() else ""
    console.print(
        f"\nstopped{' by SIGTERM' if terminated else ''}{dropped}. {_how_to_resume(directory)}", highlight=False
    )
    return 128 + (signal.SIGTERM if terminated else signal.SIGINT)


def _begin(trainer: Trainer, tier: str, saved: checkpoint.Checkpoint | None) -> None:
    """Restores the checkpoint, or makes the first population."""
    if saved is not None:
        trainer.restore(saved)
        console.print(f"resuming at step {trainer.played + 1} of {trainer.config.run.steps}")
    else:
        source = trainer.config.game.tasks
        what = "the seed programs" if source is None else f"the tasks of {source}"
        evaluation = trainer.evaluation
        if evaluation is not None:
            problems = sum(len(loaded.problems) for loaded in evaluation.loaded)
            console.print(f"the start is evaluated on {problems} held-out tasks before the first step")
        console.print(f"checking {what} in the sandbox ({tier} isolation) ...")
        left_out = trainer.begin(None if source is None else fixed_tasks(Path(source)))
        if left_out:
            console.print(
                f"{left_out} of them were left out: they are invalid or give other outputs here, are alike to held-out "
                "programs, are there twice, or of other kinds than game.kinds",
                highlight=False,
            )
    console.print("the time left is shown after the first step; its first compilation takes some seconds more")
    console.print(LEGEND, highlight=False)


def _conclude(directory: RunDirectory) -> None:
    """Prints the final population, and the command that a person is most likely to want next."""
    lines = directory.metrics()
    seconds = sum(line["seconds"]["total"] for line in lines)
    console.print(f"\ndone: {len(lines)} steps in {clock(seconds)}, in {directory.path}")
    # In a terminal the live view has left this table above.
    if not console.is_terminal:
        console.print(members_table(lines[-1]))
    for line in held_out_lines(lines):
        console.print(line, highlight=False)
    if warning := summary(lines, quoted(directory.path)):
        console.print(warning, style="yellow", highlight=False)
    console.print(f"look at it in a browser: redqueen watch {quoted(directory.path)}", highlight=False)
    console.print(
        f"export the best student: redqueen export {quoted(directory.path)} best-student OUT", highlight=False
    )


def _how_to_resume(directory: RunDirectory) -> str:
    if directory.saved():
        return f"Resume: redqueen train --resume {quoted(directory.path)}"
    return "Nothing was trained yet, so nothing is kept: start again with the same command."
