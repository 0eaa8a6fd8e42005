"""Prints what a session says around its steps."""

from __future__ import annotations

from rich.console import Console

from redqueen.run.session import Listener


class Lines(Listener):
    """Prints each line on a console."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def note(self, line: str) -> None:
        self.console.print(line)

    def warning(self, line: str) -> None:
        self.console.print(line, style="yellow")
