"""The overview: the panels of a run's course."""

from __future__ import annotations

from dataclasses import asdict

from redqueen.analysis.panels import Panel, panels
from redqueen.web.live_run import LiveRun


def overview(run: LiveRun) -> dict[str, object]:
    """Returns all panels. Raises RunError if the run cannot be read."""
    return {"panels": [panel_json(panel) for panel in panels(run.lines())]}


def panel_json(panel: Panel) -> dict[str, object]:
    """Returns a panel as `static/charts.js` draws it."""
    curves = [{"label": label, "values": values} for label, values in panel.curves.items()]
    return {**asdict(panel), "curves": curves}
