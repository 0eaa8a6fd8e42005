"""`redqueen train`: trains a new run, or the rest of a run that was stopped."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager

from redqueen.base.machine import clock, on_sigterm
from redqueen.config import Config
from redqueen.run.recording.lines import Lines
from redqueen.run.recording.metrics.dynamics import held_out_lines
from redqueen.run.recording.plain_console import PlainConsole
from redqueen.run.recording.terminal import Heartbeat, LineReporter, LiveReporter, legend, members_table
from redqueen.run.recording.warnings import summary
from redqueen.run.session import Callbacks
from redqueen.store.allowed import how_to_resume
from redqueen.store.directory import RunDirectory
from redqueen.store.files import counted, quoted

console = PlainConsole(soft_wrap=True)


class Terminated(KeyboardInterrupt):
    """SIGTERM, as batch systems and containers send it. It ends a run as Ctrl-C does."""


@contextmanager
def _attached(steps: int) -> Generator[tuple[Callbacks, _Training]]:
    """Yields what shows a run on the console, and its listener."""
    reporter = LiveReporter if console.is_terminal else LineReporter
    with closing(Heartbeat(console.print)) as heartbeat:
        listener = _Training(console, heartbeat)
        attached = Callbacks(
            command=shlex.join(["redqueen", *sys.argv[1:]]),
            listener=listener,
            recorders=[reporter(console, steps, heartbeat)],
        )
        yield attached, listener


class _Training(Lines):
    """Also prints what is about to run, and what the numbers of a step mean."""

    legend: str = ""
    ready: float | None = None
    """When the start had ended; None before."""

    def opening(self, config: Config, directory: RunDirectory) -> None:
        """Prints what is about to run, on what, and how to stop it and go on."""
        self._goes_on("loading the base")
        population = config.population
        self.legend = legend(config.game.kinds, alone=not population.teachers)
        who = "1 member in both roles"
        if not population.teachers:
            who = f"{counted(population.students, 'student')} alone on fixed tasks"
        elif not population.single_agent:
            who = f"{population.teachers} + {population.students} members (teachers + students)"
        workers = "1 process" if config.model.workers == 1 else f"{config.model.workers} worker processes"
        if config.cluster.address:
            workers = f"a Ray cluster ({config.cluster.address})"
        run = config.run
        console.print(
            f"run: {directory.path}: recipe {config.recipe}, seed {run.seed}, {counted(run.steps, 'step')}, {who}"
        )
        how = f"sampled and trained in {workers}"
        if config.sampling.engine == "vllm":
            how = f"sampled by vLLM, trained in {workers}"
        console.print(f"base: {config.model.name}, {how}; loading ...")
        console.print(f"follow it in a browser: redqueen watch {quoted(directory.path)}")
        kept = "finished steps are kept"
        if run.checkpoint_every > 1:
            kept = f"steps up to the newest checkpoint are kept, and there is one every {run.checkpoint_every} steps"
        console.print(
            f"Ctrl-C stops; {kept}. To go on: redqueen train --resume {quoted(directory.path)}", highlight=False
        )

    def training(self) -> None:
        self.ready = time.monotonic()
        console.print("the time left is shown after the first step; its first compilation takes some seconds more")
        console.print(self.legend)


def shown(steps: int, directory: RunDirectory, train: Callable[[Callbacks], None]) -> int:
    """Trains a run of so many steps on the console. Returns the exit code: of a stopped run, that of the signal.

    Raises UserError.
    """

    def terminate() -> None:
        raise Terminated

    began = time.monotonic()
    # What was recorded after the newest checkpoint is played again.
    before = (directory.saved() or [0])[-1]
    with on_sigterm(terminate):
        try:
            with _attached(steps) as (attached, listener):
                train(attached)
        except KeyboardInterrupt as stop:
            terminated = isinstance(stop, Terminated)
            by = " by SIGTERM" if terminated else ""
            console.print(f"\nstopped{by}{_dropped(directory)}. {how_to_resume(directory)}")
            return 128 + (signal.SIGTERM if terminated else signal.SIGINT)
    ended = time.monotonic()
    _conclude(directory, before, ended - began, (listener.ready or ended) - began)
    return 0


def _dropped(directory: RunDirectory) -> str:
    """Returns what a stop costs, as the end of a sentence; "" before the first checkpoint."""
    saved = directory.saved()
    if not saved:
        return ""
    newest = directory.newest_metrics()
    recorded = newest["step"] if newest else 0
    if recorded <= saved[-1]:
        return "; the unfinished step was dropped"
    again = f"step {recorded} is" if recorded == saved[-1] + 1 else f"steps {saved[-1] + 1} to {recorded} are"
    return f"; the newest checkpoint is of step {saved[-1]}, so {again} played again"


def _conclude(directory: RunDirectory, before: int, seconds: float, start: float) -> None:
    """Prints the final population, and the command that a person is most likely to want next.

    `before` is the step that this session went on from. It took so many `seconds`, and so many of them was its `start`.
    """
    lines = directory.metrics()
    played = sum(line["step"] > before for line in lines)
    what = counted(played, "more step" if before else "step")
    console.print(f"\ndone: {what} in {clock(seconds)}, of which the start took {clock(start)}, in {directory.path}")
    # In a terminal the live view has left this table above.
    if not console.is_terminal:
        console.print(members_table(lines[-1]))
    for line in held_out_lines(lines):
        console.print(line)
    if warning := summary(lines, quoted(directory.path)):
        console.print(warning, style="yellow")
    console.print(f"look at it in a browser: redqueen watch {quoted(directory.path)}")
    console.print(f"export the best student: redqueen export {quoted(directory.path)} best-student OUT")
