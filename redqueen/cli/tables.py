"""What the commands that print tables share: the consoles, plain tables, and a number with its deviation."""

from __future__ import annotations

from rich.table import Table

from redqueen.cli.plain_console import PlainConsole

# A pipe has no width of its own. Rich assumes 80 columns there and would wrap or cut what a script wants to read.
_PIPE_WIDTH = 400


def table_console() -> PlainConsole:
    """Returns the console for results: as wide as the terminal, or wide enough for any table in a pipe."""
    console = PlainConsole()
    return console if console.is_terminal else PlainConsole(width=_PIPE_WIDTH)


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
