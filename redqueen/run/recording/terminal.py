"""Shows a run to a person: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from redqueen.base.machine import clock
from redqueen.records import Kind
from redqueen.run.recording.metrics import step_metrics
from redqueen.run.recording.metrics.dynamics import OWN_SCORES
from redqueen.run.recording.recorder import Recorder, StepRecord
from redqueen.run.recording.warnings import Warnings
from redqueen.store.metrics import StepMetrics
from redqueen.tasks.kinds import find

# Says once a minute what a run is doing, where no live view shows it: in a log, a batch job, a notebook.

EVERY_S = 60.0
"""Seconds of silence after which a line is due."""


class Heartbeat:
    """Tells what goes on, and how far it is, after each minute in which nothing else was said.

    It speaks from a thread of its own, since what takes minutes may call nothing meanwhile.
    """

    def __init__(self, say: Callable[[str], None], every_s: float = EVERY_S) -> None:
        self._say = say
        self._every_s = every_s
        self._what = ""
        self._since = time.monotonic()
        self._done = 0
        self._total = 0
        self._spoke = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._beat, daemon=True, name="heartbeat")

    def begin(self, what: str) -> None:
        """Says nothing by itself: `what` is what goes on from now on."""
        self._what = what
        self._since = time.monotonic()
        self._done = self._total = 0
        if not self._thread.is_alive() and not self._closed:
            self._thread.start()

    def progress(self, done: int, total: int) -> None:
        """Takes note of how far it is."""
        self._done = done
        self._total = total

    def spoke(self) -> None:
        """Begins a new minute: something was printed."""
        self._spoke.set()

    def line(self) -> str:
        """Returns what goes on, how far it is, and since when."""
        parts = f", {self._done} of {self._total}" if self._total else ""
        return f"{self._what}{parts}, for {clock(time.monotonic() - self._since)}"

    def close(self) -> None:
        """Ends it; nothing is said afterwards."""
        self._closed = True
        self._spoke.set()
        if self._thread.is_alive():
            self._thread.join()

    def _beat(self) -> None:
        while not self._closed:
            if self._spoke.wait(self._every_s):
                self._spoke.clear()
            else:
                self._say(self.line())


PHASES = ("match", "propose", "solve", "learn", "evolve")
# Below these widths, in columns, a terminal gets less of the table of members, and a shorter bar.
_ALL_COLUMNS = 76
_NARROW = 100


def legend(kinds: Sequence[Kind], *, alone: bool = False) -> str:
    """Returns what the words and numbers of a step's line mean; students `alone` have no proposals and no games."""
    titles = ", ".join(find(kind).puzzle for kind in kinds)
    valid = "" if alone else "valid: proposals that run and repeat; "
    games = "" if alone else "; games: won by students-drawn-teachers"
    return (
        f"{valid}{', '.join(short_names(kinds))}: right answers by kind ({titles}); "
        f"contested: tasks of each kind solved sometimes, not always{games}"
    )


def short_names(kinds: Sequence[Kind]) -> list[str]:
    """Returns the modes of the kinds, such as o of code_o, or the names where these do not tell them apart."""
    modes = [kind.rpartition("_")[2] for kind in kinds]
    short = len(set(modes)) == len(modes) and all(len(mode) == 1 for mode in modes)
    return modes if short else list(kinds)


def percent(rate: float | None) -> str:
    """Formats a rate: 0.347 is "35%", and None is "-"."""
    return "-" if rate is None else f"{rate:.0%}"


def number(value: float | None) -> str:
    """Formats a fitness with two decimals; None is "-"."""
    # A fitness may be rating points or a share. Two decimals suit both.
    return "-" if value is None else f"{value:.2f}"


def headline(line: StepMetrics, *more: str, width: int | None = None) -> str:
    """Returns one step as text: its numbers and `more`, then each birth on a line of its own.

    Games are those won by students, drawn, and won by teachers. A line that is wider than `width` is broken between two
    numbers, never within one.
    """
    by_kind = line["solve_rate_by_kind"]
    names = short_names(list(by_kind))
    solved = " ".join(f"{name}:{percent(rate)}" for name, rate in zip(names, by_kind.values(), strict=True))
    contested = "/".join(str(count) for count in line["contested_by_kind"].values())
    outcomes = line["outcomes"]
    # Students alone have no proposals and no games.
    alone = not line["statuses"]["proposals"]
    valid = "" if alone else f"valid {percent(line['valid_rate'])}"
    games = "" if alone else f"games {outcomes['student']}-{outcomes['draw']}-{outcomes['teacher']}"
    fragments = [
        f"step {line['step']}",
        f"{line['seconds']['total']:.0f}s",
        valid,
        # In sample: on the tasks that the step trains on.
        f"solved in sample {percent(line['solve_rate'])}",
        f"({solved})",
        _by_author(line),
        f"contested {contested}",
        games,
        _held_out(line, "held_out", "held out"),
        _held_out(line, OWN_SCORES, "YOURS held out"),
        _gpu(line),
        *more,
    ]
    births = [
        f"    {birth['victim']} -> {birth['child']} ({birth['operator']} of {'+'.join(birth['parents'])})"
        for birth in line["replacements"]
    ]
    return "\n".join([*_broken([fragment for fragment in fragments if fragment], width), *births])


def _by_author(line: StepMetrics) -> str:
    """Returns the solve rates of fixed tasks and of teachers' beside each other, where a step has both."""
    if line.get("solve_rate_teachers") is None:
        return ""
    return f"(fixed:{percent(line['solve_rate_own'])} teachers':{percent(line['solve_rate_teachers'])})"


def _held_out(line: StepMetrics, name: str, words: str) -> str:
    """Returns what the students solve of the held-out problems: "held out S0 28%, S1 27% (start 21%)"."""
    scores = line.get(name)
    if scores is None:
        return ""
    students = ", ".join(f"{name} {percent(score['rate'])}" for name, score in scores["students"].items())
    return f"{words} {students} (start {percent(scores['start'])})"


def _gpu(line: StepMetrics) -> str:
    """Returns how well a GPU was used: "GPU 14,903 tok/s (MFU 12%), 24,102 rows/s trained (MFU 51%), 67.2 GiB".

    MFU is the share of the peak that products of the model took. On a CPU the text is empty.
    """
    # A line of a run that was made before this was counted has none.
    phases = line.get("throughput", {}).values()
    held = [phase["device_gib"] for phase in phases if phase["device_gib"] is not None]
    if not held:
        return ""
    rates: list[str] = []
    for phase in phases:
        share = "" if phase["mfu"] is None else f" (MFU {percent(phase['mfu'])})"
        if phase["sampled_per_second"]:
            rates.append(f"{phase['sampled_per_second']:,.0f} tok/s{share}")
        if phase["trained_rows_per_second"]:
            rates.append(f"{phase['trained_rows_per_second']:,.0f} rows/s trained{share}")
    return f"GPU {', '.join([*rates, f'{max(held):.1f} GiB'])}"


def _broken(fragments: Sequence[str], width: int | None) -> list[str]:
    """Joins the fragments to lines of at most `width`; all lines but the first are indented."""
    lines = [fragments[0]]
    for fragment in fragments[1:]:
        # What is in brackets belongs to what stands before it.
        gap = " " if fragment.startswith("(") else "  "
        if width is not None and len(lines[-1]) + len(gap) + len(fragment) > width:
            lines.append(f"    {fragment}")
        else:
            lines[-1] += gap + fragment
    return lines


def members_table(line: StepMetrics, width: int | None = None) -> Table:
    """Returns the population with ratings, records and parents, fittest first within each role.

    A member that has played no game has no fitness of its own, and comes last in its role. Students alone never play
    one. In a narrow terminal, of `width` columns, the table leaves out births and parents.
    """
    table = Table(box=None, pad_edge=False)
    games = any(any(member["record"]) for member in line["members"].values())
    names = ["member", "role", *(["rating", "fitness", "won-drawn-lost"] if games else []), "born", "parents"]
    if width is not None and width < _ALL_COLUMNS:
        names = names[:-2]
    for name in names:
        table.add_column(name, justify="right" if name in ("rating", "fitness") else "left", no_wrap=True)
    for name, member in sorted(line["members"].items(), key=_teachers_then_fittest):
        cells = {
            "member": name,
            "role": member["role"],
            "rating": f"{member['mu']:.1f} ± {member['sigma']:.1f}",
            "fitness": number(member["fitness"] if any(member["record"]) else None),
            "won-drawn-lost": "-".join(map(str, member["record"])),
            "born": f"step {member['born']}" if member["born"] else "start",
            "parents": "+".join(member["parents"]) or "-",
        }
        table.add_row(*(cells[column] for column in names))
    return table


def _teachers_then_fittest(item: tuple[str, Mapping[str, Any]]) -> tuple[bool, bool, float]:
    """Returns a sort key. A member without a game, or without a fitness, comes last in its role."""
    member = item[1]
    fitness = float("-inf") if member["fitness"] is None else member["fitness"]
    return member["role"] != "teacher", not any(member["record"]), -fitness


class StepClock:
    """Estimates the time left from the mean of the steps so far."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.seconds: list[float] = []

    def finished(self, line: StepMetrics) -> None:
        self.seconds.append(line["seconds"]["total"])

    def left(self, step: int, elapsed: float = 0.0) -> str:
        """Returns the time left after `step` and `elapsed` seconds of the next one, e.g. "1:15 left in all".

        Before the first step has ended it is not known: "".
        """
        if not self.seconds:
            return ""
        mean = sum(self.seconds) / len(self.seconds)
        # A step that takes longer than the mean leaves at least the steps after it.
        rest = max(0.0, mean - elapsed) + mean * (self.steps - step - 1) if self.steps > step else 0.0
        return f"{clock(rest)} left in all"


class LineReporter(Recorder):
    """Prints a line for each step, for logs and pipes, and what goes on after each minute without one."""

    def __init__(self, console: Console, steps: int, heartbeat: Heartbeat | None = None) -> None:
        self.console = console
        self.steps = steps
        self.heartbeat = heartbeat or Heartbeat(console.print)
        self.clock = StepClock(steps)
        self.warnings = Warnings()

    def phase(self, step: int, name: str) -> None:
        self.heartbeat.begin(f"step {step}/{self.steps}: {name}")

    def progress(self, done: int, total: int) -> None:
        self.heartbeat.progress(done, total)

    def close(self) -> None:
        self.heartbeat.close()

    def record(self, record: StepRecord) -> None:
        line = step_metrics(record)
        self.clock.finished(line)
        self.heartbeat.spoke()
        self.console.print(headline(line, self.clock.left(line["step"])), highlight=False, soft_wrap=True)
        for warning in self.warnings.of(line):
            self.console.print(warning, highlight=False, soft_wrap=True)


class _Elapsed(ProgressColumn):
    """The time of the phase, under its name, so that it is not taken for the time left."""

    def render(self, task: Task) -> Text:
        return Text(f"{clock(task.elapsed or 0)} in this phase")


class _Left(ProgressColumn):
    """The time left in all, which goes down while a step is played."""

    def __init__(self, times: StepClock) -> None:
        super().__init__()
        self.times = times
        self.step = 0
        self.began = time.monotonic()

    def begin(self, step: int) -> None:
        if step != self.step:
            self.step = step
            self.began = time.monotonic()

    def render(self, task: Task) -> Text:
        return Text(self.times.left(self.step - 1, time.monotonic() - self.began))


def _hide_control_keys() -> list[Any] | None:
    """Lets the terminal no longer show "^C" for Ctrl-C. Returns its settings before; None if there is no terminal."""
    # The two letters would move the cursor, and the next refresh of the view would leave a line of the last one behind.
    try:
        before = termios.tcgetattr(sys.stdin)
        changed = termios.tcgetattr(sys.stdin)
        changed[3] &= ~termios.ECHOCTL
        termios.tcsetattr(sys.stdin, termios.TCSANOW, changed)
    except (termios.error, OSError, ValueError):
        return None
    return before


class LiveReporter(Recorder):
    """Shows finished steps as they scroll by, and below them the members and the phase with its bar."""

    def __init__(self, console: Console, steps: int, heartbeat: Heartbeat) -> None:
        self.console = console
        self.steps = steps
        self.heartbeat = heartbeat
        self.clock = StepClock(steps)
        self.warnings = Warnings()
        self.left = _Left(self.clock)
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=10 if console.width < _NARROW else 40),
            _Elapsed(),
            self.left,
            console=console,
        )
        self.task: TaskID = self.bar.add_task("starting", total=None)
        self.members: Table | str = ""
        self.terminal: list[Any] | None = None
        self.live = Live(self._view(), console=console, refresh_per_second=4)

    def phase(self, step: int, name: str) -> None:
        # The view begins with the first step: until then, lines are printed in the ordinary way.
        if not self.live.is_started:
            self.heartbeat.close()
            self.terminal = _hide_control_keys()
            self.live.start()
        self.left.begin(step)
        # The evaluation is no part of most steps, so it has no number.
        position = f" ({PHASES.index(name) + 1}/{len(PHASES)})" if name in PHASES else ""
        # `reset` restarts the elapsed time, so the view shows the time of the phase and not of the run.
        self.bar.reset(self.task, total=None, description=f"step {step}/{self.steps}  {name}{position}")

    def progress(self, done: int, total: int) -> None:
        self.bar.update(self.task, completed=done, total=total)

    def record(self, record: StepRecord) -> None:
        line = step_metrics(record)
        self.clock.finished(line)
        self.members = members_table(line, self.console.width)
        self.live.update(self._view())
        self.console.print(headline(line, width=self.console.width), highlight=False, soft_wrap=True)
        for warning in self.warnings.of(line):
            self.console.print(warning, style="yellow", highlight=False)

    def close(self) -> None:
        if not self.live.is_started:
            return
        # The bar is hidden before the last refresh. Otherwise the view would leave a half-filled bar on the screen.
        self.bar.update(self.task, visible=False)
        self.live.update(self._view(), refresh=True)
        self.live.stop()
        if self.terminal is not None:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, self.terminal)
            self.terminal = None

    def _view(self) -> Group:
        return Group(self.members, self.bar)
