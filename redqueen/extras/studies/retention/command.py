"""`redqueen retention`: what children keep of their parents' skill, operator by operator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from redqueen.analysis.replay import load_step, open_replay
from redqueen.base.intervals import interval_text
from redqueen.cli.figure_files import check_figure, write_figure
from redqueen.cli.listening import Lines
from redqueen.cli.plain_console import PlainConsole
from redqueen.cli.tables import mean_and_deviation, table_console
from redqueen.extras.studies.retention.figure import draw
from redqueen.extras.studies.retention.study import RetentionPlan, RetentionTrial, retention, slots_needed
from redqueen.extras.studies.retention.summary import Summary, summarise
from redqueen.run.recording.task_reporter import TaskReporter
from redqueen.run.session import fit
from redqueen.store.allowed import Allowed, playable
from redqueen.store.directory import RunDirectory

NOTES = """\
kl: nats per token at birth, parent to child, on the parent's own answers. All is measured on reserved
tasks (held out), of which no child learns. birth, late: reward minus the parent's, at birth and in the second half of
the updates. updates: until the parent's reward was reached again; >= if some children never did within the {updates}
(the paper: 10 to 20). ± is a standard deviation, [..] a 95 % interval over the {trials} children. beats copy, beats
mean: whether the interval of the difference of late from that control's is above 0 (yes), below (worse) or around it
(no: nothing shown); - without a comparison, or with one child only."""


def run_retention(
    run: Path, step: int | None, plan: RetentionPlan, allowed: Allowed, *, as_json: bool, figure: Path | None
) -> int:
    """Runs the experiment and prints its table; returns the exit code.

    Raises UserError if the run cannot be read or the figure cannot be written.
    """
    check_figure(figure)
    directory = RunDirectory(run)
    config = playable(directory, allowed)
    saved = load_step(directory, step)
    # Progress goes to standard error: --json is for pipes.
    progress = PlainConsole(stderr=True)
    # A study may hold more members than the run did, so memory is checked for its own number of slots.
    config = fit(config, slots_needed(saved), Lines(progress))
    with open_replay(config, saved, slots_needed(saved)) as replay, TaskReporter(progress) as report:
        trials = retention(replay, saved, plan, report)
    summaries = summarise(trials, plan)
    if figure is not None:
        write_figure(draw(trials, plan), figure)
    if as_json:
        print(json.dumps(document(run, saved.step, plan, summaries, trials), indent=1))
    else:
        console = table_console()
        console.print(table(summaries))
        console.print(NOTES.format(updates=plan.updates, trials=len(trials) // len(summaries)), soft_wrap=True)
    return 0


def table(summaries: Sequence[Summary]) -> Table:
    """Returns a table with one row for each operator."""
    rows = Table(box=None, pad_edge=False)
    for name in ("operator", "kl", "birth", "regained", "updates", "late", "late - copy", "late - mean"):
        rows.add_column(name, justify="left" if name == "operator" else "right", no_wrap=True)
    rows.add_column("beats copy")
    rows.add_column("beats mean")
    for s in summaries:
        # A child that never reached its parent counts as all updates, so the mean is a lower bound.
        bound = ">= " if s.regained < 1 else ""
        rows.add_row(
            s.operator,
            mean_and_deviation(s.kl, s.kl_spread, 3),
            interval_text(s.birth),
            f"{s.regained:.0%}",
            bound + mean_and_deviation(s.updates, s.updates_spread, 1),
            interval_text(s.late),
            interval_text(s.over_copy),
            interval_text(s.over_mean),
            s.beats_copy,
            s.beats_mean,
        )
    return rows


def document(
    run: Path, step: int, plan: RetentionPlan, summaries: Sequence[Summary], trials: Sequence[RetentionTrial]
) -> dict[str, object]:
    """Returns the JSON: the plan, a summary for each operator, every trial behind it."""
    return {
        "run": str(run),
        "step": step,
        "plan": {**asdict(plan), "measured": plan.measured},
        "operators": [{**asdict(s), "beats_copy": s.beats_copy, "beats_mean": s.beats_mean} for s in summaries],
        "trials": [asdict(trial) for trial in trials],
    }
