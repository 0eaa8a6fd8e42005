"""A metric of a step: one function says everything about it.

    @METRICS.drawn("share", "new-shapes", "New programs", "Tasks whose program is new.", one("new"))
    def new_shape_rate(step: CountedStep) -> float | None:
        '''Tasks with a new shape / tasks.'''

The function's name is the key in metrics.jsonl, its text stands in docs/reference/METRICS.md, its charts are panels of
`redqueen watch`, `report` and `compare`. What it returns is plain JSON: trackers get each number in it by a flat name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from redqueen.run.recording.metrics.panel import CurvesOf, Line, MetricChart, Panel, Section
from redqueen.run.recording.metrics.step import CountedStep

Compute = TypeVar("Compute", bound=Callable[[CountedStep], Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A row of the table of metrics."""

    name: str
    """Its key in metrics.jsonl."""
    section: Section
    doc: str
    """What it means, as docs/reference/METRICS.md says it."""
    unit: str
    """What its numbers count; "" where it holds several things."""
    compute: Callable[[CountedStep], Any]
    """Returns its value of a step, as JSON has it."""
    charts: tuple[MetricChart, ...]
    """The panels that draw it, alone or with others."""
    optional: bool
    """Whether a line without a value does not have the key. The others say null."""

    def panels(self, lines: Sequence[Line]) -> Iterator[Panel]:
        """Yields the panels of the metric that these lines have numbers for."""
        for chart in self.charts:
            panel = chart.panel(lines, self.name, self.section, self.unit)
            if panel.curves:
                yield panel


class Metrics:
    """The metrics of one section of the page, in order."""

    def __init__(self, section: Section) -> None:
        self.section: Section = section
        self.rows: list[Metric] = []

    def add(self, unit: str, *charts: MetricChart, optional: bool = False) -> Callable[[Compute], Compute]:
        """Returns a decorator that makes a metric of a function; the function stays what it is."""

        def decorator(compute: Compute) -> Compute:
            self.rows.append(
                Metric(
                    name=compute.__name__,
                    section=self.section,
                    doc=" ".join((inspect.getdoc(compute) or "").split()),
                    unit=unit,
                    compute=compute,
                    charts=charts,
                    optional=optional,
                )
            )
            return compute

        return decorator

    def drawn(self, unit: str, key: str, title: str, note: str, curves: CurvesOf) -> Callable[[Compute], Compute]:
        """Returns the same decorator for a metric with one chart, of what `MetricChart` takes."""
        return self.add(unit, MetricChart(key, title, note, curves))
