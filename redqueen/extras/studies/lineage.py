"""`redqueen lineage`: the family tree of a run, as text, as JSON or as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.text import Text
from rich.tree import Tree

from redqueen.run.recording.plain_console import table_console
from redqueen.run.recording.terminal import number
from redqueen.store.files import damage_of, to_json
from redqueen.store.lineage import Life, lives

NOTES = (
    "Numbers: fitness of the fitter parent at the birth > own when first rated > own at the end, or now. "
    "A child of two hangs under the fitter. Ages are in steps."
)


def run_lineage(run: Path, *, as_json: bool) -> int:
    """Prints every member that ever lived in `run`; returns the exit code. Raises RunError if there is no such run."""
    with damage_of(run):
        members = lives(run)
        trees = {role: _tree_of(members, role) for role in dict.fromkeys(life.role for life in members)}
    if as_json:
        print(to_json([asdict(life) for life in members], indent=1))
        return 0
    console = table_console()
    for tree in trees.values():
        console.print(tree)
    console.print(NOTES)
    return 0


def _tree_of(members: Sequence[Life], role: str) -> Tree:
    """Returns one role's members under their fitter parents; a second parent is named after the operator."""
    tree = Tree(f"{role}s" if role != "both" else "")
    branches: dict[str, Tree] = {}
    # Parents come before their children, since `members` is in the order of birth.
    for life in members:
        if life.role != role:
            continue
        above = branches.get(life.parents[0], tree) if life.parents else tree
        branches[life.name] = above.add(label(life))
    return tree


def label(life: Life) -> Text:
    """Returns one member's line; replaced members are dim."""
    origin = "start"
    before = ""
    if life.parents:
        partner = f" with {life.parents[1]}" if len(life.parents) > 1 else ""
        origin = f"{life.operator}{partner}, step {life.born}"
        before = f"{number(life.parent_fitness[0])} > "
    end = "lives" if life.died is None else f"replaced after step {life.died} at the age of {life.age}"
    text = f"{life.name}  {origin}  {before}{number(life.first)} > {number(life.last)}  {life.games} games, {end}"
    if life.distance is not None:
        tries = f" (drawn {life.tries} times)" if life.tries != 1 else ""
        text += f", distance {life.distance:.3f}{tries}"
    return Text(text, style="" if life.died is None else "dim")
