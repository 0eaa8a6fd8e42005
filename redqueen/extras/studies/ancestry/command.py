"""`redqueen ancestry`: today's students attempt the tasks of the past, and past students attempt today's tasks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from redqueen.analysis.replay import load_step, open_replay
from redqueen.base.intervals import interval_text
from redqueen.cli.figure_files import check_figure, write_figure
from redqueen.cli.listening import Lines
from redqueen.cli.tables import progress_console, table_console
from redqueen.config import Config
from redqueen.extras.studies.ancestry.figure import draw
from redqueen.extras.studies.ancestry.study import (
    SLOTS,
    Games,
    StudentEpoch,
    TaskEpoch,
    play,
    student_epochs,
    task_epochs,
)
from redqueen.extras.studies.ancestry.summary import Finding, rates, students, teachers, unsolved
from redqueen.run.recording.task_reporter import TaskReporter
from redqueen.run.recording.terminal import percent
from redqueen.run.session import fit
from redqueen.store.allowed import Allowed, playable
from redqueen.store.directory import RunDirectory

NOTES = """\
Rows: the fittest students after so many steps; columns: tasks of these steps; numbers: solve rates, in sample (the run
trained on these tasks). Change: fitted from the first epoch to the last, with a 95 % interval over tasks; of the solve
rate at the same tasks for students, of difficulty for the same students for teachers. Harder is not better where the
share that nobody solved grows as well."""


def run_ancestry(
    run: Path,
    epochs: int,
    tasks: int,
    attempts: int,
    most: int,
    allowed: Allowed,
    *,
    as_json: bool,
    figure: Path | None,
) -> int:
    """Plays the games and prints the findings; returns the exit code.

    At most the fittest `most` students of an epoch play.
    Raises UserError if the run cannot be read or the figure cannot be written.
    """
    check_figure(figure)
    directory = RunDirectory(run)
    config = playable(directory, allowed)
    of_tasks = task_epochs(directory, config, epochs, tasks)
    of_students = student_epochs(directory, config, epochs, most)
    progress = progress_console()
    progress.print(available(config, directory, of_students))
    # Students of many checkpoints may be more than the adapter bank should hold at once; then they take turns.
    slots = min(SLOTS, sum(len(epoch.adapters) for epoch in of_students))
    config = fit(config, slots, Lines(progress))
    with open_replay(config, load_step(directory, None), slots) as replay, TaskReporter(progress) as report:
        games = play(replay, of_students, of_tasks, attempts, report)
    findings = {"students": students(games), "teachers": teachers(games)}
    if figure is not None:
        write_figure(draw(games, (findings["students"].verdict, findings["teachers"].verdict)), figure)
    if as_json:
        print(json.dumps(document(run, games, findings), indent=1))
    else:
        show(games, findings)
    return 0


def available(config: Config, directory: RunDirectory, epochs: list[StudentEpoch]) -> str:
    """Says which student epochs there are, and how to keep more."""
    steps = directory.saved()
    from_checkpoints = sum(epoch.step in steps for epoch in epochs)
    text = f"students of {from_checkpoints} of {len(steps)} checkpoints"
    if from_checkpoints < len(epochs):
        text += f" and {len(epochs) - from_checkpoints} champions of the hall of fame"
    text += f": after step {', '.join(str(epoch.step) for epoch in epochs)}"
    if config.run.keep_every != 1 and len(steps) <= config.run.keep_last + 1:
        text += (
            f". The run kept only its last {config.run.keep_last} checkpoints: for older students train with "
            "run.keep_every=1 (or 5, ...); tasks of all steps are in the archive"
        )
    return text


def show(games: Games, findings: dict[str, Finding]) -> None:
    """Prints the matrix and the findings."""
    console = table_console()
    table = Table(box=None, pad_edge=False)
    table.add_column("after step")
    for epoch in games.tasks:
        table.add_column(epoch.steps)
    for epoch, row in zip(games.students, rates(games), strict=True):
        table.add_row(f"{epoch.step} ({', '.join(epoch.adapters)})", *map(percent, row))
    table.add_row("solved by nobody", *map(percent, unsolved(games)))
    table.add_row("tasks", *(f"{len(epoch.tasks)}/{epoch.count}" for epoch in games.tasks))
    console.print(table)
    for name, finding in findings.items():
        cycle = "" if finding.cycle is None else f", against step {finding.cycle}"
        console.print(
            f"{name}: {finding.verdict}{cycle}; change {interval_text(finding.change)}, last minus best before "
            f"{interval_text(finding.fall)}",
            soft_wrap=True,
        )
    console.print(NOTES, soft_wrap=True)


def _task_epoch(epoch: TaskEpoch) -> dict[str, object]:
    """Returns an epoch of tasks as JSON."""
    # Here a task is named "ancestry." and its id in the archive. Readers of the JSON want the latter.
    names = [task.id.partition(".")[2] for task in epoch.tasks]
    return {"first": epoch.first, "last": epoch.last, "of": epoch.count, "tasks": names}


def document(run: Path, games: Games, findings: dict[str, Finding]) -> dict[str, object]:
    """Returns the JSON: every solve rate by task, the matrix, the findings."""
    return {
        "run": str(run),
        "students": [{"step": epoch.step, "members": list(epoch.adapters)} for epoch in games.students],
        "tasks": [_task_epoch(epoch) for epoch in games.tasks],
        "solve_rates": rates(games),
        "solved": games.solved,
        "unsolved": unsolved(games),
        "findings": {name: asdict(finding) for name, finding in findings.items()},
    }
