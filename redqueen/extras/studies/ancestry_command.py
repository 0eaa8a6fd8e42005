"""`redqueen ancestry`: today's students attempt the tasks of the past, and past students attempt today's tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from redqueen.analysis.drawing import check_figure, write_figure
from redqueen.analysis.replay import load_step, open_replay
from redqueen.base.intervals import interval_text, mean
from redqueen.config import RunConfig
from redqueen.extras.studies.ancestry import (
    SLOTS,
    Finding,
    Games,
    StudentEpoch,
    TaskEpoch,
    play,
    rates,
    student_epochs,
    students,
    task_epochs,
    teachers,
    unsolved,
)
from redqueen.run.recording.lines import Lines
from redqueen.run.recording.plain_console import TaskReporter, progress_console, table_console
from redqueen.run.recording.terminal import percent
from redqueen.run.session import fit
from redqueen.store.allowed import Permissions, playable
from redqueen.store.directory import RunDirectory

# The matrix of an ancestry study as a heat map, with its margins over time.

_STUDENTS = "#0072B2"
_TEACHERS = "#D55E00"
_UNSOLVED = "#999999"
Matrix = list[list[float | None]]


def draw(games: Games, verdicts: tuple[str, str]) -> Figure:
    """Returns the figure; `verdicts` are those on students and teachers.

    In the heat map student epochs go up and task epochs to the right; colours and numbers are solve rates. A cell that
    could not be judged is blank. Left of the white line are tasks older than the students. The panel on the right has
    each student epoch's mean at all tasks; the one below has each task epoch's mean difficulty for all students, and
    the share of its tasks that no student solved.
    """
    matrix = rates(games)
    rows = len(games.students)
    columns = len(games.tasks)
    # The heat map grows with the number of epochs, so that the number in each cell stays readable. The two margins keep
    # their width and share its axes by position: row i and column j are at the same place in all three panels.
    figure = Figure(figsize=(4.2 + 0.62 * columns, 4.0 + 0.5 * rows), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[max(columns, 3), 2.6], height_ratios=[max(rows, 3), 2.6])
    heat = figure.add_subplot(grid[0, 0])
    right = figure.add_subplot(grid[0, 1])
    below = figure.add_subplot(grid[1, 0])
    _heat(heat, games, matrix)
    _students(right, matrix, verdicts[0])
    _teachers(below, games, matrix, verdicts[1])
    for axes in (right, below):
        axes.tick_params(labelsize=8)
        axes.spines[["right", "top"]].set_visible(False)
    return figure


def _students(right: Axes, matrix: Matrix, verdict: str) -> None:
    rows = len(matrix)
    right.plot(_with_gaps(list(map(mean, matrix))), range(rows), color=_STUDENTS, marker="o", ms=3)
    right.set_ylim(-0.5, rows - 0.5)
    right.set_yticks(range(rows), [""] * rows)
    right.set_xlim(0, 1)
    right.set_xticks([0, 0.5, 1])
    right.set_xlabel("in sample, all tasks", fontsize=9)
    right.set_title(f"students: {verdict}", fontsize=9)


def _teachers(below: Axes, games: Games, matrix: Matrix, verdict: str) -> None:
    columns = len(games.tasks)
    difficulties = [1 - rate for rate in _with_gaps([mean(column) for column in zip(*matrix, strict=True)])]
    below.plot(range(columns), difficulties, color=_TEACHERS, marker="o", ms=3, label="difficulty, all students")
    below.plot(range(columns), unsolved(games), color=_UNSOLVED, marker="s", ms=3, label="solved by no student")
    below.set_xlim(-0.5, columns - 0.5)
    below.set_xticks(range(columns), [""] * columns)
    below.set_ylim(0, 1)
    below.set_title(f"teachers: {verdict}", fontsize=9)
    below.legend(fontsize=8, frameon=False, loc="best")


def _heat(axes: Axes, games: Games, matrix: Matrix) -> None:
    # The colour scale is fixed to [0, 1], so that heat maps of different runs can be compared by eye.
    values = [_with_gaps(row) for row in matrix]
    axes.imshow(values, origin="lower", aspect="auto", vmin=0, vmax=1, cmap=colormaps["cividis"])
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            if value is not None:
                # numbers have to be readable on both ends of the colour map
                hue = "white" if value < 0.6 else "black"
                # ".43" for a rate below 1: the leading zero would not fit into the cell
                axes.text(j, i, f"{value:.2f}".removeprefix("0"), ha="center", va="center", fontsize=7, color=hue)
    # The white steps separate the past from the future: an epoch's tasks are older than the students if its window
    # ended before the students were saved. Cells are centred on whole numbers, so that borders are at halves.
    borders = [_older_epochs(games, epoch.step) - 0.5 for epoch in games.students]
    edges = [i - 0.5 for i in range(len(borders) + 1)]
    axes.stairs(borders, edges, orientation="horizontal", baseline=None, color="white", lw=2)
    axes.set_xticks(range(len(games.tasks)), [epoch.steps for epoch in games.tasks], rotation=60, fontsize=8)
    axes.set_yticks(range(len(games.students)), [str(e.step) for e in games.students], fontsize=8)
    axes.set_xlabel("tasks of step", fontsize=9)
    axes.set_ylabel("students after step", fontsize=9)
    axes.set_title("solve rate, in sample (left of the white steps: tasks older than the students)", fontsize=9)


def _with_gaps(row: Sequence[float | None]) -> list[float]:
    """Returns the row with NaN for an unknown value, which leaves a gap."""
    return [float("nan") if value is None else value for value in row]


def _older_epochs(games: Games, step: int) -> int:
    """Returns how many task epochs ended by `step`."""
    return sum(epoch.last <= step for epoch in games.tasks)


NOTES = """\
Rows: the fittest students after so many steps; columns: tasks of these steps; numbers: solve rates, in sample (the run
trained on these tasks). Change: fitted from the first epoch to the last, with a 95 % interval over tasks; of the solve
rate at the same tasks for students, of difficulty for the same students for teachers. Harder is not better where the
share of unsolved tasks grows as well."""


def run_ancestry(
    run: Path,
    epochs: int,
    tasks: int,
    attempts: int,
    most: int,
    allowed: Permissions,
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
    of_tasks = task_epochs(directory, config.game.kinds, config.run.seed, epochs, tasks)
    of_students = student_epochs(directory, config.evolution_settings, epochs, most)
    progress = progress_console()
    progress.print(available(config.run, directory, of_students))
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


def available(run: RunConfig, directory: RunDirectory, epochs: list[StudentEpoch]) -> str:
    """Says which student epochs there are, and how to keep more."""
    steps = directory.saved()
    from_checkpoints = sum(epoch.step in steps for epoch in epochs)
    text = f"students of {from_checkpoints} of {len(steps)} checkpoints"
    if from_checkpoints < len(epochs):
        text += f" and {len(epochs) - from_checkpoints} champions of the hall of fame"
    text += f": after step {', '.join(str(epoch.step) for epoch in epochs)}"
    if run.keep_every != 1 and len(steps) <= run.keep_last + 1:
        text += (
            f". The run kept only its last {run.keep_last} checkpoints: for older students train with "
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
    table.add_row("solved by no student", *map(percent, unsolved(games)))
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
