"""The colours of curves, in figures and on the live page."""

from __future__ import annotations

# The first are Okabe and Ito's palette, which colour-blind readers can tell apart. It has fewer hues than there are
# operators, so more follow.
HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#6A3D9A", "#B8A800", "#333333")
