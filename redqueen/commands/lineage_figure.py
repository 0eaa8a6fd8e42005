"""`redqueen lineage --figure`: the family tree of a run as a picture."""

from __future__ import annotations

from pathlib import Path

from redqueen.analysis.family_figure import draw, write
from redqueen.analysis.lineage import last_step, lives
from redqueen.runs.directory import RunError

FORMATS = (".png", ".svg")


def run_lineage_figure(run: Path, file: Path) -> None:
    """Writes the figure. Raises RunError for another ending, for a run without members, or if it cannot be written."""
    if file.suffix not in FORMATS:
        raise RunError(f"{file}: a figure's name ends in {' or '.join(FORMATS)}")
    found = lives(run)
    if not found:
        raise RunError(f"{run} has no members yet: nothing to draw")
    try:
        write(draw(found, last_step(run) + 1), file)
    except OSError as error:
        raise RunError(f"cannot write {file}: {error.strerror}") from error
