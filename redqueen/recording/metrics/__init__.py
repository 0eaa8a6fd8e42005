"""The table of metrics: metrics.jsonl, the panels, the trackers' names and the reference in docs/METRICS.md are its.

Imports no torch, no matplotlib and no sandbox process: a page follows a run at the cost of milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.recording.metrics import complexity, coverage, dynamics, league, training
from redqueen.recording.metrics.metric import Metric
from redqueen.recording.metrics.panel import Line, Panel, kinds_of, standardised
from redqueen.recording.metrics.step import CountedStep
from redqueen.recording.recorder import StepRecord
from redqueen.runs.metrics import StepMetrics

__all__ = ["METRICS", "Metric", "Panel", "kinds_of", "panels", "standardised", "step_metrics"]

SECTIONS = (dynamics.METRICS, complexity.METRICS, coverage.METRICS, training.METRICS, league.METRICS)
METRICS: tuple[Metric, ...] = tuple(metric for section in SECTIONS for metric in section.rows)
"""Every metric, in the order of metrics.jsonl, of the page and of docs/METRICS.md."""


def step_metrics(record: StepRecord) -> StepMetrics:
    """Returns the step's line."""
    step = CountedStep(record)
    line: StepMetrics = {}
    for metric in METRICS:
        value = metric.compute(step)
        if value is not None or not metric.optional:
            line[metric.name] = value
    return line


def panels(lines: Sequence[Line]) -> list[Panel]:
    """Returns every panel that these lines have numbers for, section by section."""
    return [panel for metric in METRICS for panel in metric.panels(lines)]
