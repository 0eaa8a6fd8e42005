"""A metric of a step: one function says everything about it.

    @METRICS.drawn("share", "new-shapes", "New programs", "Tasks whose program is new.", one("new"))
    def new_shape_rate(step: CountedStep) -> float | None:
        '''Tasks with a new shape / tasks.'''

The function's name is the key in metrics.jsonl, its text stands in docs/reference/METRICS.md, its charts are panels of
`redqueen watch`, `report` and `compare`. What it returns is plain JSON: trackers get each number in it by a flat name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from redqueen.method.played_step import ScoredAttempt, ScoredPosed, ScoredProposal
from redqueen.method.rewards import is_judged
from redqueen.records import Kind, Rollout
from redqueen.run.recording.measures import MeasuredTask
from redqueen.run.recording.metrics.panel import CurvesOf, Line, MetricChart, Panel, Section
from redqueen.run.recording.recorder import StepRecord

Item = ScoredProposal | ScoredPosed | ScoredAttempt | Rollout | MeasuredTask
I = TypeVar("I", bound=Item)  # noqa: E741
T = TypeVar("T")


class CountedStep:
    """A step's record, sorted.

    Rates are over what was judged. If faults of the machine counted as failures, a machine under load would look like
    members that get worse. Attempts at a task that was withdrawn were judged by nothing.
    """

    def __init__(self, record: StepRecord) -> None:
        self.record = record
        self.kinds = record.kinds
        # A champion of the past is no part of the population, so what it wrote counts in no rate.
        self.living = {standing.member.name for standing in record.standings}
        self.all_proposals = record.played.proposals
        """With those of champions."""
        self.all_attempts = record.played.attempts
        """With those of champions."""
        self.proposals = [
            proposal for proposal in self.all_proposals if proposal.proposed.rollout.member in self.living
        ]
        self.attempts = [attempt for attempt in self.all_attempts if attempt.attempted.rollout.member in self.living]
        self.judged = [proposal for proposal in self.proposals if proposal.proposed.verdict.status != "infra_error"]
        """The proposals that are valid or not."""
        self.valid = [proposal for proposal in self.judged if is_valid(proposal)]
        self.answered = [attempt for attempt in self.attempts if is_judged(attempt.attempted.verdict)]
        """The attempts that are right or wrong."""
        at_fixed = [attempt for posed in record.played.posed for attempt in posed.attempts]
        self.answered_fixed = [attempt for attempt in at_fixed if is_judged(attempt.attempted.verdict)]
        """Those at fixed tasks."""
        self.rollouts = [proposal.proposed.rollout for proposal in self.proposals]
        """What living members wrote, proposals first."""
        self.rollouts += [attempt.attempted.rollout for attempt in self.attempts]
        self.rated_fixed = [posed for posed in record.played.posed if posed.solve_rate is not None]
        """The fixed tasks with a solve rate."""
        self.rated: list[ScoredProposal | ScoredPosed] = [
            proposal
            for proposal in self.proposals
            if proposal.proposed.student in self.living and proposal.solve_rate is not None
        ]
        self.rated += self.rated_fixed
        """The tasks of living teachers, and fixed ones, with a solve rate of a living student."""
        self.measured = record.measures.tasks
        """The valid tasks of living teachers, as they were measured."""

    def by_kind(self, items: Iterable[I], value: Callable[[list[I]], T]) -> dict[Kind, T]:
        groups: dict[Kind, list[I]] = {kind: [] for kind in self.kinds}
        for item in items:
            groups.setdefault(_kind(item), []).append(item)
        return {kind: value(groups[kind]) for kind in self.kinds}


def is_valid(proposal: ScoredProposal) -> bool:
    """Returns whether a proposal is a task."""
    return proposal.proposed.task is not None


def _kind(item: Item) -> Kind:
    if isinstance(item, ScoredProposal):
        return item.proposed.rollout.kind
    if isinstance(item, ScoredPosed):
        return item.posed.task.kind
    if isinstance(item, ScoredAttempt):
        return item.attempted.rollout.kind
    return item.kind


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
