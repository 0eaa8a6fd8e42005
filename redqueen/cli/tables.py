"""What the commands that print tables share: the console, and numbers with their uncertainty."""

from __future__ import annotations

from rich.console import Console

from redqueen.base.intervals import Interval

# A pipe has no width of its own. Rich assumes 80 columns there and would wrap or cut what a script wants to read.
_PIPE_WIDTH = 400


def table_console() -> Console:
    """Returns the console for results: as wide as the terminal, or wide enough for any table in a pipe."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def mean_and_deviation(mean: float, deviation: float | None, digits: int) -> str:
    """Formats a mean with its standard deviation, if there is one: `0.43 ± 0.05`."""
    return f"{mean:.{digits}f}" if deviation is None else f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def signed_interval(interval: Interval | None) -> str:
    r"""Formats a difference with its interval, if there is one: `+0.05 \[-0.02, +0.11]`, escaped for Rich's markup."""
    if interval is None:
        return "-"
    ends = "" if interval.low is None else f" \\[{interval.low:+.2f}, {interval.high:+.2f}]"
    return f"{interval.mean:+.2f}{ends}"


def unsigned_interval(interval: Interval | None) -> str:
    r"""Formats a rate with its interval, if there is one: `0.43 \[0.35, 0.51]`, escaped for Rich's markup."""
    return signed_interval(interval).replace("+", "")
