"""`redqueen lineage --figure`: the family tree as a picture. The text needs no matplotlib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import MaxNLocator

from redqueen.analysis.drawing import HUES, check_figure, write_figure
from redqueen.store.directory import RunError
from redqueen.store.lineage import Life, last_step, lives

# The family tree as a figure: time to the right, one line for each member's life, births as arcs from the parents.

_START = "#999999"


def draw(members: Sequence[Life], steps: int) -> Figure:
    """Returns the figure of these lives over `steps` steps played: a panel for each role, operators by colour.

    A line begins at the member's birth and ends where it was replaced (a cross) or at the present (a dot); the number
    at its end is its last fitness. The arc of the fitter parent is solid, the other's dashed.
    """
    # Roles are in the order of birth. Operators are sorted, so that their colours do not depend on who was born first.
    rows = Counter(life.role for life in members)
    roles = list(rows)
    operators = sorted({life.operator for life in members if life.parents})
    hues = {name: HUES[i % len(HUES)] for i, name in enumerate(operators)}
    # Every life has the same room in all panels. The height has a limit, for a long run has thousands of lives, and
    # few viewers open a figure of that size.
    height = 1.6 + sum(0.6 + 0.24 * count for count in rows.values())
    figure = Figure(figsize=(11, min(height, 60)), layout="constrained")
    grid = figure.subplots(
        len(roles), 1, sharex=True, squeeze=False, height_ratios=[count + 1.5 for count in rows.values()]
    )
    for axes, role in zip(grid[:, 0], roles, strict=True):
        _panel(axes, [life for life in members if life.role == role], steps, hues)
        axes.set_title(
            {"teacher": "teachers", "student": "students"}.get(role, "single agent"), loc="left", fontsize=10
        )
    grid[-1, 0].set_xlabel("steps played")
    figure.legend(
        handles=[
            *(Line2D([], [], color=hues[name], lw=2, label=name) for name in operators),
            Line2D([], [], color=_START, lw=2, label="start"),
            Line2D([], [], color="black", lw=0, marker="x", label="replaced"),
            Line2D([], [], color="black", lw=0, marker="o", label="lives"),
            Line2D([], [], color="black", lw=1, label="fitter parent"),
            Line2D([], [], color="black", lw=1, ls="--", label="other parent"),
        ],
        loc="outside lower center",
        ncols=5,
        fontsize=8,
        frameon=False,
    )
    return figure


def _panel(axes: Axes, members: Sequence[Life], steps: int, hues: Mapping[str, str]) -> None:
    row = {life.name: i for i, life in enumerate(members)}
    for life in members:
        y = row[life.name]
        hue = hues.get(life.operator, _START)
        begin = life.born
        end = steps if life.died is None else life.died
        axes.plot([begin, end], [y, y], color=hue, lw=2.2, solid_capstyle="butt")
        axes.plot([end], [y], color=hue, marker="o" if life.died is None else "x", ms=5)
        axes.annotate(life.name, (begin, y), (-4, 0), textcoords="offset points", ha="right", va="center", fontsize=8)
        if life.last is not None:
            text = f"{life.last:.3g}"
            axes.annotate(text, (end, y), (6, 0), textcoords="offset points", va="center", fontsize=7, color="#555555")
        # a parent of another role has no line in this panel
        for rank, parent in enumerate(life.parents):
            if parent in row:
                _arc(axes, begin, row[parent], y, hue, "solid" if rank == 0 else "dashed")
    # the oldest member on top
    axes.set_ylim(len(members) - 0.3, -0.9)
    axes.set_xlim(-0.06 * max(steps, 1), max(steps, 1) * 1.06)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["left", "right", "top"]].set_visible(False)


def _arc(axes: Axes, x: float, parent: float, child: float, hue: str, style: str) -> None:
    # The sign follows the direction, so that every arc bends to the same side, with its parent above or below.
    bend = 0.25 if child > parent else -0.25
    axes.add_patch(
        FancyArrowPatch(
            (x, parent),
            (x, child),
            connectionstyle=f"arc3,rad={bend}",
            arrowstyle="-|>",
            mutation_scale=8,
            lw=1,
            color=hue,
            linestyle=style,
            shrinkA=0,
            shrinkB=2,
        )
    )


def run_lineage_figure(run: Path, file: Path) -> None:
    """Writes the family tree of a run as a picture: `redqueen lineage --figure`.

    Raises RunError if there is no such run or it has no members yet, UserError if the file cannot be written.
    """
    check_figure(file)
    members = lives(run)
    if not members:
        raise RunError(f"{run} has no members yet: nothing to draw")
    write_figure(draw(members, last_step(run)), file)
