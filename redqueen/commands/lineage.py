"""`redqueen lineage`: the family tree of a run, for eyes or for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.tree import Tree

from redqueen.analysis.lineage.tree import Life, lives
from redqueen.recording.terminal import number


def run_lineage(run: Path, *, as_json: bool) -> int:
    """Prints everyone who ever lived in `run`; returns the exit code. Raises RunError."""
    found = lives(run)
    if as_json:
        print(json.dumps([asdict(life) for life in found], indent=1))
        return 0
    # a pipe has no width of its own; a terminal wraps
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=400)
    for role in dict.fromkeys(life.role for life in found):
        console.print(family_tree([life for life in found if life.role == role], f"{role}s" if role != "both" else ""))
    console.print(
        "Numbers: fitness of the fitter parent at the birth > own when first rated > own at the end, or now. "
        "A child of two hangs under the fitter."
    )
    return 0


def family_tree(found: Sequence[Life], title: str) -> Tree:
    """One role's members under their fitter parents; a second parent is named beside the operator."""
    tree = Tree(title)
    places: dict[str, Tree] = {}
    for life in found:
        above = places.get(life.parents[0], tree) if life.parents else tree
        places[life.name] = above.add(label(life))
    return tree


def label(life: Life) -> str:
    """One member in one line; the dead are dim."""
    made, before = "start", ""
    if life.parents:
        other = f" with {life.parents[1]}" if len(life.parents) > 1 else ""
        made, before = f"{life.operator}{other}, step {life.born + 1}", f"{number(life.parent_fitness[0])} > "
    end = "lives" if life.died is None else f"replaced after step {life.died + 1}"
    text = f"{life.name}  {made}  {before}{number(life.first)} > {number(life.last)}  {life.games} games, {end}"
    if life.distance is not None:
        text += f", distance {life.distance:.3f}" + (f" (drawn {life.tries} times)" if life.tries != 1 else "")
    return text if life.died is None else f"[dim]{text}[/dim]"
