"""Figures as files, the same figure always with the same bytes, and the colours of curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

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
