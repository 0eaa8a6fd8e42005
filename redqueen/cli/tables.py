"""What the commands that print tables share: the consoles, plain tables, and a number with its deviation."""

from __future__ import annotations

import os
from typing import Any

from rich.table import Table

from redqueen.run.recording.plain_console import PlainConsole

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
