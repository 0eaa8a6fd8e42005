"""Figures that commands write."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from redqueen.analysis.drawing import write
from redqueen.runs.directory import RunError

FORMATS = (".png", ".svg")


def check_figure(file: Path | None) -> None:
    """Before hours of work: raises RunError for another ending or a folder that is not there."""
    if file is None:
        return
    if file.suffix not in FORMATS:
        raise RunError(f"{file}: a figure's name ends in {' or '.join(FORMATS)}")
    if not file.parent.is_dir():
        raise RunError(f"cannot write {file}: {file.parent} is no folder")


def write_figure(figure: Figure, file: Path) -> None:
    """Raises RunError if the file cannot be written."""
    try:
        write(figure, file)
    except OSError as error:
        raise RunError(f"cannot write {file}: {error.strerror}") from error
