"""`redqueen lineage --figure`: the family tree of a run as a picture."""

# This is not part of `redqueen.cli.lineage`, which prints the tree and should not load matplotlib for it.

from __future__ import annotations

from pathlib import Path

from redqueen.analysis.lineage.figure import draw
from redqueen.analysis.lineage.tree import last_step, lives
from redqueen.cli.figure_files import check_figure, write_figure
from redqueen.runs.directory import RunError


def run_lineage_figure(run: Path, file: Path) -> None:
    """Writes the figure.

    Raises RunError if there is no such run or it has no members yet, UserError if the file cannot be written.
    """
    check_figure(file)
    members = lives(run)
    if not members:
        raise RunError(f"{run} has no members yet: nothing to draw")
    write_figure(draw(members, last_step(run)), file)
