"""Shows a run to a person: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from redqueen.recording.metrics import step_metrics
from redqueen.recording.one_sided import OneSided
from redqueen.recording.recorder import Recorder, StepRecord
from redqueen.runs.metrics import MemberMetrics, StepMetrics

PHASES = ("match", "propose", "solve", "learn", "evolve")


def clock(seconds: float) -> str:
    """Formats a duration: 75 is "1:15"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def percent(rate: float | None) -> str:
    """Formats a rate: 0.347 is "35%", and None is "-"."""
    return "-" if rate is None else f"{rate:.0%}"


def number(value: float | None) -> str:
    """Formats a fitness with two decimals; None is "-"."""
    # A fitness may be rating points or a share. Two decimals suit both.
    return "-" if value is None else f"{value:.2f}"


def headline(line: StepMetrics) -> str:
    """Returns one step as one line of text; games are those won by students, drawn, and won by teachers."""
    # The last letter tells the kinds apart: code_o is "o".
    solved = " ".join(f"{kind[-1]}:{percent(rate)}" for kind, rate in line["solve_rate_by_kind"].items())
    contested = "/".join(str(count) for count in line["contested_by_kind"].values())
    outcomes = line["outcomes"]
    games = f"{outcomes['student']}-{outcomes['draw']}-{outcomes['teacher']}"
    births = ""
    for birth in line["replacements"]:
        births += f"  {birth['victim']} -> {birth['child']} ({birth['operator']} of {'+'.join(birth['parents'])})"
    return (
        f"step {line['step']}  {line['seconds']['total']:.0f}s  valid {percent(line['valid_rate'])}  "
        # In sample: on the tasks that the step trains on.
        f"solved in sample {percent(line['solve_rate'])} ({solved})  contested {contested}  games {games}{births}"
    )


def members_table(line: StepMetrics) -> Table:
    """Returns the population with ratings, records and parents, fittest first within each role."""
    table = Table(box=None, pad_edge=False)
    for name in ("member", "role", "rating", "fitness", "won-drawn-lost", "born", "parents"):
        table.add_column(name, justify="right" if name in ("rating", "fitness") else "left")
    for name, member in sorted(line["members"].items(), key=_teachers_then_fittest):
        table.add_row(
            name,
            member["role"],
            f"{member['mu']:.1f} ± {member['sigma']:.1f}",
            number(member["fitness"]),
            "-".join(map(str, member["record"])),
            f"step {member['born']}" if member["born"] else "start",
            "+".join(member["parents"]) or "-",
        )
    return table


def _teachers_then_fittest(item: tuple[str, MemberMetrics]) -> tuple[bool, float]:
    """Returns a sort key. A member without a fitness comes last in its role."""
    member = item[1]
    fitness = float("-inf") if member["fitness"] is None else member["fitness"]
    return member["role"] != "teacher", -fitness


class StepClock:
    """Estimates the time left from the mean of the steps so far."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.seconds: list[float] = []

    def finished(self, line: StepMetrics) -> None:
        """Counts a step that has ended."""
        self.seconds.append(line["seconds"]["total"])

    def left(self, step: int) -> str:
        """Returns the time left after `step`, e.g. "1:15 left", or "" before the first step has ended."""
        if not self.seconds:
            return ""
        mean = sum(self.seconds) / len(self.seconds)
        return f"{clock(mean * (self.steps - step))} left"


class LineReporter(Recorder):
    """Prints a line for each step, for logs and pipes."""

    def __init__(self, console: Console, steps: int) -> None:
        self.console = console
        self.clock = StepClock(steps)
        self.one_sided = OneSided()

    def __enter__(self) -> LineReporter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def record(self, record: StepRecord) -> None:
        line = step_metrics(record)
        self.clock.finished(line)
        text = f"{headline(line)}  {self.clock.left(line['step'])}"
        self.console.print(text, highlight=False, soft_wrap=True)
        if warning := self.one_sided.warning(line["outcomes"]):
            self.console.print(warning, highlight=False, soft_wrap=True)


class LiveReporter(Recorder):
    """Shows finished steps as they scroll by, and below them the members and the phase with its bar."""

    def __init__(self, console: Console, steps: int) -> None:
        self.console = console
        self.steps = steps
        self.clock = StepClock(steps)
        self.one_sided = OneSided()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self.task: TaskID = self.bar.add_task("starting", total=None, note="")
        self.members: Table | str = ""
        self.live = Live(self._view(), console=console, refresh_per_second=4)

    def __enter__(self) -> LiveReporter:
        self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def phase(self, step: int, name: str) -> None:
        # `reset` restarts the elapsed time, so the view shows the time of the phase and not of the run.
        self.bar.reset(
            self.task,
            total=None,
            description=f"step {step}/{self.steps}  {name} ({PHASES.index(name) + 1}/{len(PHASES)})",
            note=self.clock.left(step - 1),
        )

    def progress(self, done: int, total: int) -> None:
        self.bar.update(self.task, completed=done, total=total)

    def record(self, record: StepRecord) -> None:
        line = step_metrics(record)
        self.clock.finished(line)
        self.members = members_table(line)
        self.live.update(self._view())
        self.console.print(headline(line), highlight=False)
        if warning := self.one_sided.warning(line["outcomes"]):
            self.console.print(warning, style="yellow", highlight=False)

    def close(self) -> None:
        # The bar is hidden before the last refresh. Otherwise the view would leave a half-filled bar on the screen.
        self.bar.update(self.task, visible=False)
        self.live.update(self._view(), refresh=True)
        self.live.stop()

    def _view(self) -> Group:
        return Group(self.members, self.bar)
