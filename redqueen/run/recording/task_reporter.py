"""Progress of a long job that is not a run, such as the warm start."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn


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
