"""Figures as files; the same figure always gives the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# By default an SVG has random ids and today's date, and its letters are outlines. With these settings two files of one
# figure are equal byte by byte, so that a test can compare them, and text in a figure can be searched.
_STABLE: dict[Any, Any] = {"svg.hashsalt": "redqueen", "svg.fonttype": "none"}


def write(figure: Figure, file: Path) -> None:
    """Writes a PNG or SVG file, by the file's ending. Raises OSError if it cannot be written."""
    with mpl.rc_context(_STABLE):
        figure.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)
