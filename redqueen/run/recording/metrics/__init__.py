"""The table of metrics: metrics.jsonl, the panels, the trackers' names and the reference page are made of it.

Imports no torch, no matplotlib and no sandbox process: a page follows a run at the cost of milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.plugins import PluginError
from redqueen.run.recording.metrics import complexity, coverage, dynamics, league, training
from redqueen.run.recording.metrics.metric import Metric
from redqueen.run.recording.metrics.own import own_panels, own_values
from redqueen.run.recording.metrics.panel import Line, Panel, kinds_of, standardised
from redqueen.run.recording.metrics.step import CountedStep
from redqueen.run.recording.recorder import StepRecord
from redqueen.store.metrics import OwnMetric, StepMetrics

__all__ = ["METRICS", "Metric", "Panel", "check_own", "kinds_of", "panels", "standardised", "step_metrics"]

SECTIONS = (dynamics.METRICS, complexity.METRICS, coverage.METRICS, training.METRICS, league.METRICS)
METRICS: tuple[Metric, ...] = tuple(metric for section in SECTIONS for metric in section.rows)
"""Every metric, in the order of metrics.jsonl, of the page and of docs/reference/METRICS.md."""


def step_metrics(record: StepRecord, own: Sequence[str] = ()) -> StepMetrics:
    """Returns the step's line, with the metrics of plugins that are called `own`."""
    step = CountedStep(record)
    line: StepMetrics = {}
    for metric in METRICS:
        value = metric.compute(step)
        if value is not None or not metric.optional:
            line[metric.name] = value
    return {**line, **own_values(own, step)}


def panels(lines: Sequence[Line], own: Sequence[OwnMetric] = ()) -> list[Panel]:
    """Returns every panel that these lines have numbers for, section by section, and then those of `own` metrics."""
    return [*(panel for metric in METRICS for panel in metric.panels(lines)), *own_panels(lines, own)]


def check_own(names: Sequence[str]) -> None:
    """Raises PluginError if a metric of a plugin has the name of another thing in a line."""
    for name in {metric.name for metric in METRICS}.intersection(names):
        raise PluginError(f"Red Queen has a metric '{name}': give yours another name")
