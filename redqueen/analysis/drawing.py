"""Figures as files, the same figure always with the same bytes, and the colours of curves."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from redqueen.errors import UserError

# The first are Okabe and Ito's palette, which colour-blind readers can tell apart. It has fewer hues than there are
# operators, so more follow.
HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#6A3D9A", "#B8A800", "#333333")


# By default an SVG has random ids and today's date, and its letters are outlines. With these settings two files of one
# figure are equal byte by byte, so that a test can compare them, and text in a figure can be searched.
_STABLE: dict[Any, Any] = {"svg.hashsalt": "redqueen", "svg.fonttype": "none"}


def write(figure: Figure, file: Path) -> None:
    """Writes a PNG or SVG file, by the file's ending. Raises OSError if it cannot be written."""
    with mpl.rc_context(_STABLE):
        figure.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)
    if file.suffix == ".svg":
        file.write_text(_with_short_paths(file.read_text(encoding="utf-8")), encoding="utf-8")


def _with_short_paths(svg: str) -> str:
    """Returns the SVG with its paths in hundredths of a point, which makes a figure of curves about a fifth smaller."""
    return re.sub(r'(?<= d=")[^"]+', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)


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
