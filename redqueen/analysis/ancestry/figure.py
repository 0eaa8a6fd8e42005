"""The matrix of an ancestry experiment as a heat map, with its margins over time."""

from __future__ import annotations

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from redqueen.analysis.ancestry.study import Games
from redqueen.analysis.ancestry.summary import rates, unsolved

_STUDENTS, _TEACHERS, _UNSOLVED = "#0072B2", "#D55E00", "#999999"


def draw(games: Games, words: tuple[str, str]) -> Figure:
    """Student epochs upwards, task epochs to the right, solve rates as colours and numbers; a cell that could not be
    judged is blank. Left of the white steps are tasks older than the students. `words` are the findings
    for students and teachers.

    Right: each student epoch's mean at all tasks. Below: each task epoch's mean difficulty for all students, and the
    share of its tasks that nobody solved.
    """
    found = rates(games)
    rows, columns = len(games.students), len(games.tasks)
    figure = Figure(figsize=(4.2 + 0.62 * columns, 4.0 + 0.5 * rows), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[max(columns, 3), 2.6], height_ratios=[max(rows, 3), 2.6])
    heat, right, below = (figure.add_subplot(grid[place]) for place in ((0, 0), (0, 1), (1, 0)))
    _heat(heat, games, found)
    across = [[v for v in row if v is not None] for row in found]
    right.plot(
        [sum(own) / len(own) if own else float("nan") for own in across], range(rows), color=_STUDENTS, marker="o", ms=3
    )
    right.set_ylim(-0.5, rows - 0.5)
    right.set_yticks(range(rows), [""] * rows)
    right.set_xlim(0, 1)
    right.set_xticks([0, 0.5, 1])
    right.set_xlabel("solve rate, all tasks", fontsize=9)
    right.set_title(f"students: {words[0]}", fontsize=9)
    down = [[v for row in found if (v := row[j]) is not None] for j in range(columns)]
    hard = [1 - sum(own) / len(own) if own else float("nan") for own in down]
    below.plot(range(columns), hard, color=_TEACHERS, marker="o", ms=3, label="difficulty, all students")
    below.plot(range(columns), unsolved(games), color=_UNSOLVED, marker="s", ms=3, label="solved by nobody")
    below.set_xlim(-0.5, columns - 0.5)
    below.set_xticks(range(columns), [""] * columns)
    below.set_ylim(0, 1)
    below.set_title(f"teachers: {words[1]}", fontsize=9)
    below.legend(fontsize=8, frameon=False, loc="best")
    for axes in (right, below):
        axes.tick_params(labelsize=8)
        axes.spines[["right", "top"]].set_visible(False)
    return figure


def _heat(axes: Axes, games: Games, found: list[list[float | None]]) -> None:
    values = [[float("nan") if v is None else v for v in row] for row in found]
    axes.imshow(values, origin="lower", aspect="auto", vmin=0, vmax=1, cmap=colormaps["cividis"])
    for i, row in enumerate(found):
        for j, value in enumerate(row):
            if value is not None:
                hue = "white" if value < 0.6 else "black"
                axes.text(j, i, f"{value:.2f}"[value < 1 :], ha="center", va="center", fontsize=7, color=hue)
    past = [sum(epoch.end <= s.step for epoch in games.tasks) - 0.5 for s in games.students]
    axes.stairs(
        past, [i - 0.5 for i in range(len(past) + 1)], orientation="horizontal", baseline=None, color="white", lw=2
    )
    axes.set_xticks(range(len(games.tasks)), [_steps(e.first, e.end) for e in games.tasks], rotation=60, fontsize=8)
    axes.set_yticks(range(len(games.students)), [str(e.step) for e in games.students], fontsize=8)
    axes.set_xlabel("tasks of step", fontsize=9)
    axes.set_ylabel("students after step", fontsize=9)
    axes.set_title("solve rate (left of the white steps: tasks older than the students)", fontsize=9)


def _steps(first: int, end: int) -> str:
    return f"{first + 1}" if end == first + 1 else f"{first + 1}-{end}"
