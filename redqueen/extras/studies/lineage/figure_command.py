"""`redqueen lineage --figure`: the family tree as a picture. The text needs no matplotlib."""

from __future__ import annotations

from pathlib import Path

from redqueen.cli.figure_files import check_figure, write_figure
from redqueen.extras.studies.lineage.figure import draw
from redqueen.store.directory import RunError
from redqueen.store.lineage import last_step, lives


def run_lineage_figure(run: Path, file: Path) -> None:
    """Writes the family tree of a run as a picture: `redqueen lineage --figure`.

    Raises RunError if there is no such run or it has no members yet, UserError if the file cannot be written.
    """
    check_figure(file)
    members = lives(run)
    if not members:
        raise RunError(f"{run} has no members yet: nothing to draw")
    write_figure(draw(members, last_step(run)), file)
