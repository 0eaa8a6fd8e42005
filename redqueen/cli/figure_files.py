"""Checks and writes the figures of commands."""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

from redqueen.analysis.drawing import write
from redqueen.errors import UserError

FORMATS = (".png", ".svg")


def check_figure(file: Path | None) -> None:
    """Checks, before hours of work, that the figure can be written.

    Raises UserError if the file has another ending than `FORMATS` or if its folder does not exist.
    """
    if file is None:
        return
    if file.suffix not in FORMATS:
        raise UserError(f"{file}: the figure's file name must end in {' or '.join(FORMATS)}")
    if not file.parent.is_dir():
        raise UserError(f"cannot write {file}: the folder {file.parent} does not exist")


def write_figure(figure: Figure, file: Path) -> None:
    """Writes the figure in the format of the file's ending. Raises UserError if the file cannot be written."""
    try:
        write(figure, file)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error
    # On standard error, because standard output may be JSON that another program reads.
    print(f"wrote {file}", file=sys.stderr)
