"""The charts of a run as numbers: the live page, the report and the comparison draw the same panels.

Everything here comes from the lines of metrics.jsonl alone, so that a page can follow a run at the cost of
milliseconds. Imports no torch, no matplotlib and no sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.analysis.panels.complexity import complexity
from redqueen.analysis.panels.coverage import coverage
from redqueen.analysis.panels.dynamics import dynamics
from redqueen.analysis.panels.held_out import held_out
from redqueen.analysis.panels.league import league
from redqueen.analysis.panels.panel import Panel, kinds_of, standardised
from redqueen.analysis.panels.training import training
from redqueen.runs.metrics import StepMetrics

__all__ = ["Panel", "kinds_of", "panels", "standardised"]


def panels(lines: Sequence[StepMetrics]) -> list[Panel]:
    """Returns every panel that these lines have numbers for, section by section."""
    made = [*held_out(lines), *dynamics(lines), *complexity(lines), *coverage(lines), *training(lines)]
    made += league(lines)
    return [panel for panel in made if panel.curves]
