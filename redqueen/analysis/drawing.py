"""Figures as files and as text; the same figure always gives the same bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by colour-blind readers, then two more: there are more operators than hues in it.
HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#6A3D9A", "#B8A800", "#333333")
# an SVG's ids are random and dated otherwise
_STABLE: dict[Any, Any] = {"svg.hashsalt": "redqueen", "svg.fonttype": "none"}


def write(figure: Figure, file: Path) -> None:
    """As PNG or SVG, by the file's ending. Raises OSError."""
    with mpl.rc_context(_STABLE):
        figure.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)


def svg(figure: Figure) -> bytes:
    """As an SVG document."""
    memory = io.BytesIO()
    with mpl.rc_context(_STABLE):
        figure.savefig(memory, format="svg", metadata={"Date": None})
    return memory.getvalue()
