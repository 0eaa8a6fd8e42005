"""A chart of the lines of metrics.jsonl, as `static/charts.js` draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redqueen.recording.metrics.panel import Line


def chart(
    lines: Sequence[Line],
    section: str,
    key: str,
    title: str,
    unit: str,
    note: str,
    curves: Sequence[Mapping[str, Any]],
    *,
    low: float | None = 0,
    high: float | None = None,
) -> dict[str, Any]:
    """Returns the chart; a curve without any value is left out."""
    return {
        "key": f"{section}-{key}",
        "section": section,
        "title": title,
        "unit": unit,
        "note": note,
        "low": low,
        "high": high,
        "steps": [line["step"] for line in lines],
        "curves": [curve for curve in curves if set(curve["values"]) - {None}],
    }
