"""The overview: the panels of a run's course, and the verdict about it so far."""

from __future__ import annotations

from dataclasses import fields

from redqueen.analysis.dynamics.verdict import verdict
from redqueen.recording.metrics import Panel, panels
from redqueen.web.live_run import LiveRun


def overview(run: LiveRun) -> dict[str, object]:
    """Returns all panels and the verdict. Raises RunError if the run cannot be read."""
    lines = run.lines()
    found = verdict(lines)
    return {
        "verdict": {"word": found.word, "reason": found.reason},
        "panels": [panel_json(panel) for panel in panels(lines)],
    }


def panel_json(panel: Panel) -> dict[str, object]:
    """Returns a panel as `static/charts.js` draws it."""
    # Not `asdict`, which copies each of a long run's points.
    data: dict[str, object] = {part.name: getattr(panel, part.name) for part in fields(panel)}
    data["curves"] = [{"label": label, "values": values} for label, values in panel.curves.items()]
    return data
