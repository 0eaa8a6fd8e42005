"""The consoles of the commands, which print text as it is, their tables, and the progress of a job that is no run.

A path, a member's name, a kind and an answer are texts that others wrote. Rich would take `[red]` in them for markup
and `:smile:` for an emoji, and would hand a terminal's control characters on. Colours are given as styles.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table

from redqueen.store.files import printable


class PlainConsole(Console):
    """A console that knows no markup, and shows control characters as escapes, in tables and trees too."""

    def __init__(
        self, *, stderr: bool = False, soft_wrap: bool = False, width: int | None = None, file: IO[str] | None = None
    ) -> None:
        super().__init__(
            stderr=stderr,
            soft_wrap=soft_wrap,
            width=width,
            file=file,
            markup=False,
            emoji=False,
            highlight=False,
            # In a notebook, too, these are lines and no boxes of HTML.
            force_jupyter=False,
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yields the pieces of whatever is printed, their text made printable."""
        for segment in super().render(renderable, options):
            # Rich itself moves the cursor by pieces that have a control code and no text of anybody.
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


# Tables, and the consoles for results and for progress.

# A pipe has no width of its own. Rich assumes 80 columns there and would wrap or cut what a script wants to read.
_PIPE_WIDTH = 400


class _PipeConsole(PlainConsole):
    """Prints tables without the blanks with which they fill their last column."""

    def print(self, *objects: Any, **options: Any) -> None:
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def table_console() -> PlainConsole:
    """Returns the console for results: as wide as the terminal, in a pipe as wide as COLUMNS or as any table."""
    console = PlainConsole()
    asked = os.environ.get("COLUMNS", "")
    # A shell may export 0, or anything; rich ignores what is no width as well.
    width = int(asked) if asked.isascii() and asked.isdigit() else 0
    return console if console.is_terminal else _PipeConsole(width=width or _PIPE_WIDTH)


def progress_console() -> PlainConsole:
    """Returns the console for progress, on standard error: standard output may be JSON that another program reads."""
    return PlainConsole(stderr=True, soft_wrap=True)


def mean_and_deviation(mean: float, deviation: float | None, digits: int) -> str:
    """Formats a mean with its standard deviation, if there is one: `0.43 ± 0.05`."""
    return f"{mean:.{digits}f}" if deviation is None else f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def plain_table(*columns: str) -> Table:
    """Returns a table without lines, whose cells stay on one line."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


# Progress of a long job that is not a run, such as the warm start.


class TaskReporter:
    """Shows a bar for each part of a job in a terminal. Elsewhere it prints a line now and then."""

    EVERY_S = 15.0
    """Seconds between two lines, where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.tasks: dict[str, TaskID] = {}
        self.printed = 0.0

    def __enter__(self) -> TaskReporter:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Shows that `done` of `total` is done. `what` is "name: detail", and each name has its own bar."""
        name = what.partition(":")[0]
        if name not in self.tasks:
            self.tasks[name] = self.bar.add_task(what, total=total)
        self.bar.update(self.tasks[name], description=what, completed=done, total=total)
        # A log gets the last line in any case, so that it never ends in the middle of a part that was finished.
        if not self.console.is_terminal and (done == total or time.monotonic() - self.printed > self.EVERY_S):
            self.printed = time.monotonic()
            self.console.print(f"{what}  {done}/{total}", highlight=False, soft_wrap=True)
