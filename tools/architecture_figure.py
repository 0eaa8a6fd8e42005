"""Draws docs/figures/architecture.svg: the rooms by layer, and who imports whom, read from the source.

    python tools/architecture_figure.py

An arrow that follows from others (a imports b, b imports c, so a stands above c) is left out. So are arrows to the
ground floor, which every room may use.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from tests.test_layers import EDGES, LEVELS, part_and_level  # noqa: E402

TARGET = REPOSITORY / "docs" / "figures" / "architecture.svg"
WIDTH, HEIGHT, GAP = 2.6, 0.62, 0.35
WIDEST = 5
"""Rooms of a row."""
LEFT_OUT = {"redqueen", "redqueen.__main__"}
GROUND = {name for level in LEVELS[-4:] for name in level} | {"redqueen.config", "redqueen.assets"}
TITLES = {
    "redqueen.cli": "the command line",
    "redqueen.api": "runs from Python",
    "redqueen.members": "asked, scored, exported",
    "redqueen.analysis": "what a run meant",
    "redqueen.run": "start, train, record",
    "redqueen.evals": "held-out score",
    "redqueen.store": "archive, checkpoints",
    "redqueen.method": "PopuLoRA: a step",
    "redqueen.engine": "base, members, GPU",
    "redqueen.assets": "shipped adapter",
    "redqueen.config": "every setting",
    "redqueen.tasks": "kinds, Python, programs",
    "redqueen.plugins": "own parts by name",
    "redqueen.base": "random numbers, streams",
    "redqueen.extras": "extras by name",
    "redqueen.records": "what flows in a step",
    "redqueen.errors": "a user's errors",
    "redqueen.jail": "the judge",
    "redqueen.extras.sql": "queries for SQLite",
    "redqueen.extras.expr": "expressions",
    "redqueen.extras.reasoning_gym": "generators as tasks",
    "redqueen.extras.studies": "ancestry, transfer, ...",
    "redqueen.extras.page": "page and report",
    "redqueen.extras.benchmarks": "code, maths",
    "redqueen.extras.rewards": "for other trainers",
    "redqueen.extras.vllm": "samples on a GPU",
    "redqueen.extras.ray": "many machines",
    "redqueen.extras.trackers": "W&B and the like",
}


def rows_of_rooms() -> list[list[str]]:
    """The rooms that the picture shows, top first."""
    rows = [[room for room in level if room not in LEFT_OUT] for level in LEVELS]
    # A long row is shown as several.
    return [row[at : at + WIDEST] for row in rows for at in range(0, len(row), WIDEST)]


def arrows() -> list[tuple[str, str]]:
    """Imports between rooms, without those that a longer way implies."""
    below: dict[str, set[str]] = {room: set() for row in rows_of_rooms() for room in row}
    for importer, imported in EDGES:
        upper, lower = part_and_level(importer)[0], part_and_level(imported)[0]
        if upper != lower and upper in below and lower in below and lower not in GROUND:
            below[upper].add(lower)

    reachable: dict[str, set[str]] = {}
    for row in reversed(rows_of_rooms()):
        for room in row:
            beyond = [reachable[lower] for lower in below[room]]
            reachable[room] = below[room].union(*beyond)
    return [
        (upper, lower)
        for upper, lowers in below.items()
        for lower in sorted(lowers)
        if not any(lower in reachable[other] for other in lowers)
    ]


def places() -> dict[str, tuple[float, float]]:
    """The centre of each room's box; rows are centred."""
    centres: dict[str, tuple[float, float]] = {}
    for depth, row in enumerate(rows_of_rooms()):
        start = -(len(row) - 1) / 2 * (WIDTH + GAP)
        for column, room in enumerate(row):
            centres[room] = (start + column * (WIDTH + GAP), -depth * (HEIGHT + 2 * GAP))
    return centres


def draw_room(axes: Axes, room: str, centre: tuple[float, float]) -> None:
    """A box with the room's name and what it is for."""
    x, y = centre
    corner = (x - WIDTH / 2, y - HEIGHT / 2)
    box = FancyBboxPatch(corner, WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.12", fc="#f6f4ef", ec="#8a2432")
    axes.add_patch(box)
    axes.text(
        x,
        y + 0.12,
        room.removeprefix("redqueen.").removeprefix("extras."),
        ha="center",
        va="center",
        fontsize=9,
        weight="bold",
    )
    axes.text(x, y - 0.16, TITLES[room], ha="center", va="center", fontsize=7.5, color="#444444")


def draw(target: Path) -> None:
    """Writes the picture to `target`. Raises KeyError for a room without a title."""
    mpl.rcParams["svg.hashsalt"] = "redqueen"  # the same picture gives the same file
    centres = places()
    figure = Figure(figsize=(10, 10))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    for upper, lower in arrows():
        (x, y), (to_x, to_y) = centres[upper], centres[lower]
        arrow = {"arrowstyle": "->", "color": "#b9b2a6", "lw": 0.9}
        axes.annotate("", (to_x, to_y + HEIGHT / 2), (x, y - HEIGHT / 2), arrowprops=arrow, zorder=0)
    for room, centre in centres.items():
        draw_room(axes, room, centre)
    widest = max(x for x, _ in centres.values()) + WIDTH
    axes.set_xlim(-widest, widest)
    axes.set_ylim(min(y for _, y in centres.values()) - HEIGHT, HEIGHT)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    draw(TARGET)
    print(TARGET)
