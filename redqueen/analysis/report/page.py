"""A run as one page of HTML that needs no other file: its course, its members and its family tree."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from matplotlib.figure import Figure

from redqueen.analysis.drawing import svg
from redqueen.analysis.lineage import figure as tree_figure
from redqueen.analysis.lineage.tree import Life, lives
from redqueen.analysis.report import curves
from redqueen.config import Config
from redqueen.recording.terminal import number
from redqueen.runs.directory import RunDirectory, RunError

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1150px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; } img { width: 100%; }
table { border-collapse: collapse; } td, th { padding: .15em 1.2em .15em 0; text-align: left; white-space: nowrap; }
th { border-bottom: 1px solid #bbb; font-weight: 600; } .dead { color: #888; } code { background: #f3f3f3; }
.wide { overflow-x: auto; }
"""
_COURSE = (
    "A proposal is valid if the sandbox could run it and it gave the same result again; it is new if its program was "
    "not in the task bank. Only contested tasks, solved sometimes but not always, pay both sides. With the default "
    "reward a teacher is paid -1 for an invalid task, 0 for one that no student solves, 1 - solve rate otherwise. All "
    "of it is in sample: measured on the tasks that the members train on. <code>redqueen eval RUN</code> measures the "
    "students on held-out programs."
)
_FAMILY = (
    "A line is a life, its colour the operator that made the member, the number at its end its last fitness. Arcs come "
    "from the parents, the fitter one's is solid."
)
_CAUTION = (
    "Ratings and fitness are relative to the opponents of the day: if both sides improve alike, they stand still. "
    "Whether students improved against what they met before, and whether tasks became harder, is what "
    "<code>redqueen ancestry RUN</code> measures."
)


def page(directory: RunDirectory) -> str:
    """Returns the page. Raises RunError if there is no such run or it has played no step."""
    config = directory.config()
    lines = directory.metrics()
    members = lives(directory.path)
    if not lines:
        raise RunError(f"{directory.path} has played no step yet: nothing to report")
    title = escape(directory.path.resolve().name)
    steps = int(lines[-1]["step"])
    return "\n".join(
        [
            '<!doctype html><html lang="en"><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title} ({escape(config.recipe)})</title><style>{_STYLE}</style>",
            f"<h1>{title}</h1>{_summary(config, steps, lines)}",
            f"<h2>Course</h2>{_image(curves.draw(lines), 'rates and rewards by step')}<p>{_COURSE}</p>",
            f"<h2>Family tree</h2>{_image(tree_figure.draw(members, steps), 'family tree')}<p>{_FAMILY}</p>",
            f"<h2>Members</h2>{_members(members)}<p>{_CAUTION}</p>",
            "</html>\n",
        ]
    )


def _summary(config: Config, steps: int, lines: Sequence[Mapping[str, Any]]) -> str:
    population = config.population
    seconds = sum(line.get("seconds", {}).get("total", 0.0) for line in lines)
    sides = f"{_count(population.teachers, 'teacher')} and {_count(population.students, 'student')}"
    if population.single_agent:
        sides = "a single agent in both roles"
    return (
        f"<p>Recipe <code>{escape(config.recipe)}</code> on {escape(config.model.name)}, {sides}, "
        f"seed {config.run.seed}: {steps} of {config.run.steps} steps, {seconds / 60:.1f} minutes.</p>"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _members(members: Sequence[Life]) -> str:
    """Returns a table of every member that ever lived: in each role the living first, the fittest on top."""
    # Teachers and students have no common scale of fitness, so each role is ranked for itself. A member that was
    # never rated comes last.
    ranked = sorted(members, key=lambda life: (life.role != "teacher", life.died is not None, -_fitness(life)))
    head = "".join(
        f"<th>{name}</th>"
        for name in ("member", "role", "made by", "parents", "born", "end", "age", "games", "fitness")
    )
    # On a narrow screen the table scrolls by itself.
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(map(_row, ranked))}</table></div>'


def _row(life: Life) -> str:
    cells = (
        life.name,
        life.role,
        life.operator if life.parents else "-",
        " + ".join(life.parents) or "-",
        f"step {life.born}" if life.parents else "start",
        "lives" if life.died is None else f"replaced after step {life.died}",
        f"{life.age} steps",
        str(life.games),
        number(life.last),
    )
    kind = "" if life.died is None else ' class="dead"'
    return f"<tr{kind}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _fitness(life: Life) -> float:
    return float("-inf") if life.last is None else life.last


def _image(figure: Figure, words: str) -> str:
    # An SVG in an `img` cannot run scripts, and ids inside two figures cannot collide as they would in one document.
    data = base64.b64encode(svg(figure)).decode()
    return f'<img alt="{words}" src="data:image/svg+xml;base64,{data}">'
