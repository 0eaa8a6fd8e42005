"""What a person sees while something long runs: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as RichTable

Line = dict[str, Any]
PHASES = ("match", "propose", "solve", "learn", "evolve")


def clock(seconds: float) -> str:
    """`75` is "1:15"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}"


def number(value: float | None) -> str:
    """A fitness: rating points or a share, so two decimals."""
    return "-" if value is None else f"{value:.2f}"


def headline(line: Line) -> str:
    """One step in one line of text."""
    solved = " ".join(f"{kind[-1]}:{percent(rate)}" for kind, rate in line["solve_rate_by_kind"].items())
    contested = "/".join(str(count) for count in line["contested_by_kind"].values())
    births = "".join(
        f"  {b['victim']} -> {b['child']} ({b['operator']} of {'+'.join(b['parents'])})" for b in line["replacements"]
    )
    return (
        f"step {line['step'] + 1}  {line['seconds']['total']:.0f}s  valid {percent(line['valid_rate'])}  "
        f"solved {percent(line['solve_rate'])} ({solved})  contested {contested}{births}"
    )


def members_table(line: Line) -> RichTable:
    """The population with ratings, records and parents, fittest first within each role."""
    table = RichTable(box=None, pad_edge=False)
    for name in ("member", "role", "rating", "fitness", "won-drawn-lost", "born", "parents"):
        table.add_column(name, justify="right" if name in ("rating", "fitness") else "left")
    unknown = float("-inf")

    def order(item: tuple[str, Any]) -> tuple[bool, float]:
        fitness = item[1]["fitness"]
        return item[1]["role"] != "teacher", -(unknown if fitness is None else fitness)

    ranked = sorted(line["members"].items(), key=order)
    for name, m in ranked:
        table.add_row(
            name,
            m["role"],
            f"{m['mu']:.1f} ± {m['sigma']:.1f}",
            number(m["fitness"]),
            "-".join(map(str, m["record"])),
            "start" if m["born"] < 0 else f"step {m['born'] + 1}",
            "+".join(m["parents"]) or "-",
        )
    return table


class StepClock:
    """Time left, from the mean of the steps so far."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.seconds: list[float] = []

    def finished(self, line: Line) -> None:
        self.seconds.append(line["seconds"]["total"])

    def left(self, step: int) -> str:
        if not self.seconds:
            return ""
        return f"{clock(sum(self.seconds) / len(self.seconds) * (self.steps - step - 1))} left"


class LineReporter:
    """Plain lines, for logs and pipes."""

    def __init__(self, console: Console, steps: int) -> None:
        self.console, self.clock = console, StepClock(steps)

    def __enter__(self) -> LineReporter:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def phase(self, step: int, name: str) -> None:
        pass

    def progress(self, done: int, total: int) -> None:
        pass

    def finished(self, line: Line) -> None:
        self.clock.finished(line)
        self._print(f"{headline(line)}  {self.clock.left(line['step'])}")

    def _print(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)


class LiveReporter:
    """A live view: finished steps scroll by, below them the members and the phase with its bar."""

    def __init__(self, console: Console, steps: int) -> None:
        self.console, self.steps, self.clock = console, steps, StepClock(steps)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self.task: TaskID = self.bar.add_task("starting", total=None, note="")
        self.members: RichTable | str = ""
        self.live = Live(self._view(), console=console, refresh_per_second=4)

    def __enter__(self) -> LiveReporter:
        self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.update(self.task, visible=False)
        self.live.update(self._view(), refresh=True)
        self.live.stop()

    def phase(self, step: int, name: str) -> None:
        # `reset` restarts the elapsed time, so that it is the phase's own
        self.bar.reset(
            self.task,
            total=None,
            description=f"step {step + 1}/{self.steps}  {name} ({PHASES.index(name) + 1}/{len(PHASES)})",
            note=self.clock.left(step - 1),
        )

    def progress(self, done: int, total: int) -> None:
        self.bar.update(self.task, completed=done, total=total)

    def finished(self, line: Line) -> None:
        self.clock.finished(line)
        self.members = members_table(line)
        self.live.update(self._view())
        self.console.print(headline(line), highlight=False)

    def _view(self) -> Group:
        return Group(self.members, self.bar)


class TaskReporter:
    """Progress of a long job that is no run (the warm start): a bar in a terminal, a line now and then elsewhere."""

    EVERY_S = 15.0

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
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
        """`what` is "name: detail"; each name has a bar of its own."""
        name = what.partition(":")[0]
        if name not in self.tasks:
            self.tasks[name] = self.bar.add_task(what, total=total)
        self.bar.update(self.tasks[name], description=what, completed=done, total=total)
        if not self.console.is_terminal and (done == total or time.monotonic() - self.printed > self.EVERY_S):
            self.printed = time.monotonic()
            self.console.print(f"{what}  {done}/{total}", highlight=False, soft_wrap=True)
