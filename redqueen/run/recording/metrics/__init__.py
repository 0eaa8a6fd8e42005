"""The table of metrics: metrics.jsonl, the panels, the trackers' names and the reference page are made of it.

Imports no torch, no matplotlib and no sandbox process: a page follows a run at the cost of milliseconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

from redqueen import plugins
from redqueen.plugins import PluginError
from redqueen.run.recording.metrics import complexity, coverage, dynamics, league, training
from redqueen.run.recording.metrics.metric import (
    CountedStep,
    Curves,
    Line,
    Metric,
    MetricChart,
    Panel,
    by_key,
    column,
    kinds_of,
    standardised,
)
from redqueen.run.recording.recorder import StepRecord
from redqueen.store.metrics import OwnMetric, StepMetrics


def own_metrics(names: Sequence[str]) -> list[OwnMetric]:
    """Returns what the run keeps of its own metrics. Raises PluginError if one was not imported."""
    metrics: list[OwnMetric] = []
    for name in names:
        compute = plugins.find("metric", name)
        text = " ".join((inspect.getdoc(compute) or "").split())
        metrics.append(OwnMetric(name=name, title=compute.title, unit=compute.unit, text=text))
    return metrics


def own_values(names: Sequence[str], step: CountedStep) -> dict[str, Any]:
    """Returns the values of own metrics.

    Raises PluginError if one fails, or is no number, and no dict of numbers, or None.
    """
    values: dict[str, Any] = {}
    for name in names:
        try:
            values[name] = plugins.find("metric", name)(step)
        except PluginError:
            raise
        # A user's code may raise anything.
        except Exception as error:
            raise PluginError(
                f"the metric '{name}' fails: {type(error).__name__}: {error}: repair it, and go on with --resume, "
                "which plays this step again"
            ) from error
    return {name: _numbers(name, value) for name, value in values.items()}


def _numbers(name: str, value: Any) -> Any:
    """Returns a metric's value as JSON has it. Raises PluginError if it is no number, no dict of numbers, and not None.

    NumPy's numbers and tensors of one number are numbers, too.
    """
    given = cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {"": value}
    plain = {key: each.item() if getattr(each, "shape", None) == () else each for key, each in given.items()}
    if not all(number is None or isinstance(number, int | float) for number in plain.values()):
        raise PluginError(f"the metric '{name}' must give a number, a dict of numbers or None, not {value!r}")
    return plain if isinstance(value, Mapping) else plain[""]


def own_panels(lines: Sequence[Line], metrics: Sequence[OwnMetric]) -> list[Panel]:
    """Returns a panel for each of these metrics that the lines have numbers for."""
    panels: list[Panel] = []
    for metric in metrics:
        key = f"own-{metric.name.replace('_', '-')}"
        chart = MetricChart(key, metric.title, metric.text, _curves, metric.unit, limits=(None, None))
        panels.append(chart.panel(lines, metric.name, "own", metric.unit))
    return [panel for panel in panels if panel.curves]


def _curves(lines: Sequence[Line], name: str) -> Curves:
    """Returns the curve of a number, or one for each key of a dict."""
    if any(isinstance(line.get(name), Mapping) for line in lines):
        return by_key(lines, name)
    return {name.replace("_", " "): column(lines, name)}


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
