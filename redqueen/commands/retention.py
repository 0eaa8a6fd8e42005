"""`redqueen retention`: what children keep of their parents, operator by operator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from redqueen.analysis.replay import load_step, opened
from redqueen.analysis.retention.figure import draw
from redqueen.analysis.retention.study import Plan, Trial, retention, slots_needed
from redqueen.analysis.retention.summary import Summary, summarise
from redqueen.commands.environment import quiet_libraries
from redqueen.commands.figure_files import check_figure, write_figure
from redqueen.intervals import Interval
from redqueen.recording.task_reporter import TaskReporter
from redqueen.runs.directory import RunDirectory

NOTES = """\
kl: nats per token at birth, parent to child, on the parent's own answers. birth, late: reward minus the parent's on the
fixed tasks, at birth and in the second half of the updates. updates: until the parent's reward was reached again; >= if
some children never did within the {updates} (the paper: 10 to 20). ± is a standard deviation, [..] a 95 % interval over
the {trials} children. beats copy, beats mean: whether the interval of the difference of late from that control's is
above 0 (yes), below (worse) or around it (no: nothing shown); - without a comparison, or with one child only."""


def run_retention(run: Path, step: int | None, plan: Plan, *, as_json: bool, figure: Path | None) -> int:
    """Runs the experiment and prints; returns the exit code. Raises UserError."""
    check_figure(figure)
    quiet_libraries()
    directory = RunDirectory(run)
    config = directory.config()
    saved = load_step(directory, step)
    # on standard error: --json is for pipes
    with opened(config, saved, slots_needed(saved)) as loaded, TaskReporter(Console(stderr=True)) as report:
        trials = retention(loaded, saved, plan, report)
    found = summarise(trials, plan)
    if figure is not None:
        write_figure(draw(trials, plan), figure)
    if as_json:
        print(json.dumps(document(run, saved.step, plan, found, trials), indent=1))
    else:
        wide = Console(highlight=False)
        console = wide if wide.is_terminal else Console(highlight=False, width=200)
        console.print(table(found))
        console.print(NOTES.format(updates=plan.updates, trials=len(trials) // len(found)), soft_wrap=True)
    return 0


def table(found: Sequence[Summary]) -> Table:
    """One row for each operator."""
    made = Table(box=None, pad_edge=False)
    for name in ("operator", "kl", "birth", "regained", "updates", "late", "late - copy", "late - mean"):
        made.add_column(name, justify="left" if name == "operator" else "right", no_wrap=True)
    made.add_column("beats copy")
    made.add_column("beats mean")
    for s in found:
        made.add_row(
            s.operator,
            spread(s.kl, s.kl_spread, 3),
            range_of(s.birth),
            f"{s.regained:.0%}",
            (">= " if s.regained < 1 else "") + spread(s.updates, s.updates_spread, 1),
            range_of(s.late),
            range_of(s.over_copy),
            range_of(s.over_mean),
            s.beats_copy,
            s.beats_mean,
        )
    return made


def spread(mean: float, deviation: float | None, digits: int) -> str:
    """A mean with its standard deviation, if there is one."""
    return f"{mean:.{digits}f}" if deviation is None else f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def range_of(found: Interval | None) -> str:
    """A difference with its interval, if there is one: `+0.05 [-0.02, +0.11]`."""
    if found is None:
        return "-"
    ends = "" if found.low is None else f" \\[{found.low:+.2f}, {found.high:+.2f}]"
    return f"{found.mean:+.2f}{ends}"


def document(run: Path, step: int, plan: Plan, found: Sequence[Summary], trials: Sequence[Trial]) -> dict[str, object]:
    """The JSON: the plan, a summary for each operator, every trial behind it."""
    return {
        "run": str(run),
        "step": step,
        "plan": {**asdict(plan), "measured": plan.measured},
        "operators": [{**asdict(s), "beats_copy": s.beats_copy, "beats_mean": s.beats_mean} for s in found],
        "trials": [asdict(trial) for trial in trials],
    }
