"""A metric of a step: one function says everything about it.

    @METRICS.drawn("share", "new-shapes", "New programs", "Tasks whose program is new.", one("new"))
    def new_shape_rate(step: CountedStep) -> float | None:
        '''Tasks with a new shape / tasks.'''

The function's name is the key in metrics.jsonl, its text stands in docs/reference/METRICS.md, its charts are panels of
`redqueen watch`, `report` and `compare`. What it returns is plain JSON: trackers get each number in it by a flat name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, TypeVar

from redqueen.method.played_step import ScoredAttempt, ScoredPosed, ScoredProposal
from redqueen.method.rewards import is_judged
from redqueen.records import Kind, Rollout
from redqueen.run.recording.measures import MeasuredTask
from redqueen.run.recording.recorder import StepRecord

# A panel, and how its curves are taken from the lines of metrics.jsonl.

Section = Literal["dynamics", "complexity", "coverage", "training", "league", "own", "machine"]
Column = tuple[float | None, ...]
Curves = dict[str, Column]
# A line as a reader finds it. Another version of Red Queen may have written it, so any key can be missing.
Line = Mapping[str, Any]
CurvesOf = Callable[[Sequence[Line], str], Curves]
"""Takes the curves of the metric that is named from the lines."""
MembersOf = Callable[[Sequence[Line], str], Sequence[Collection[str]]]
"""Takes from the lines the names of the members of which each has a value of the metric that is named."""
Limits = tuple[float | None, float | None]
"""The ends of an axis; None where it follows the data."""

MOST_MEMBERS = 24
"""So many members at most have a curve each in one chart: with all of a long run's, it would grow with the square of
the steps.
"""
IN_SAMPLE = "In sample: measured on the tasks that the members train on."


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart: curves over the steps of a run."""

    key: str
    """A stable name, used in links and file names: "solve-rate"."""
    section: Section
    title: str
    unit: str
    """What the vertical axis counts: "share", "lines", "tokens", "seconds", ..."""
    note: str
    """One or two plain sentences: what is counted, in sample or held-out."""
    low: float | None
    high: float | None
    """The limits of the axis; None where it follows the data."""
    steps: tuple[int, ...]
    curves: Mapping[str, Column]
    """By label, each as long as `steps`; None is a gap."""


@dataclass(frozen=True, slots=True)
class MetricChart:
    """How a metric is drawn: what its panel says, and where its curves come from."""

    key: str
    title: str
    note: str
    curves: CurvesOf
    unit: str = ""
    """The metric's own unless it says another."""
    limits: Limits = (0, None)
    usual: Limits = (None, None)
    """The limits if all values are within them."""
    only: str = ""
    """The key that a line must have to be a step of the chart; "": all lines are."""
    members: MembersOf | None = None
    """Whose curves these could be, in a chart with a curve for each member."""

    def panel(self, lines: Sequence[Line], name: str, section: Section, unit: str) -> Panel:
        """Returns the panel of the metric `name`; a curve without any value is left out."""
        if self.only:
            lines = [line for line in lines if line.get(self.only)]
        curves = self.curves(lines, name)
        curves = {label: column for label, column in curves.items() if any(value is not None for value in column)}
        note = self.note
        if self.members is not None and len(names(self.members(lines, name))) > MOST_MEMBERS:
            note += (
                f" Not every member is shown: at most {MOST_MEMBERS}, the most recent of the last quarter of the steps."
            )
        unit = self.unit or unit
        # The limits of a share are what is possible: a curve that hardly moves looks flat, in every run alike.
        low, high = (0, 1) if unit == "share" else self.limits
        usual_low, usual_high = self.usual
        if usual_low is not None and usual_high is not None:
            values = [value for column in curves.values() for value in column if value is not None]
            if all(usual_low <= value <= usual_high for value in values):
                low, high = self.usual
        return Panel(
            key=self.key,
            section=section,
            title=self.title,
            unit=unit,
            note=note,
            low=low,
            high=high,
            steps=tuple(int(line["step"]) for line in lines),
            curves=curves,
        )


def kinds_of(lines: Sequence[Line]) -> list[str]:
    """Returns the kinds of task that occur in the lines, in the order of the first line."""
    return named(lines, "solve_rate_by_kind")


def contested_share(line: Line) -> float | None:
    """Returns the share of a step's tasks that are contested, None without a task."""
    tasks = sum((line.get("tasks_by_kind") or {}).values())
    return sum((line.get("contested_by_kind") or {}).values()) / tasks if tasks else None


def standardised(by_kind: Mapping[str, float | None], kinds: Collection[str]) -> float | None:
    """Returns the mean over `kinds`, each with the same weight; None if one of them has no value.

    The plain solve rate also moves when teachers write more of an easy kind. This one does not.
    """
    values = [value for kind in kinds if (value := by_kind.get(kind)) is not None]
    return fmean(values) if values and len(values) == len(kinds) else None


def column(lines: Sequence[Line], *path: str) -> Column:
    """Returns the lines' numbers at `path`, a key in a key."""
    return tuple(at(line, *path) for line in lines)


def at(line: Line, *path: str) -> Any:
    """Returns what a line has at `path`, a key in a key, or None."""
    value: Any = line
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def by_key(lines: Sequence[Line], name: str) -> Curves:
    """Returns one curve for each name in the lines' mapping `name`."""
    return {key: column(lines, name, key) for key in named(lines, name)}


def one(label: str) -> CurvesOf:
    """Returns the curve of a metric that is one number, under a label."""
    return lambda lines, name: {label: column(lines, name)}


def with_kinds(label: str) -> CurvesOf:
    """Returns the curve of a metric that is one number, and those of the metric with "_by_kind" after its name."""
    return lambda lines, name: {label: column(lines, name), **by_key(lines, f"{name}_by_kind")}


def several(**keys: str) -> CurvesOf:
    """Returns one curve for each label: that of the metric with this name."""
    return lambda lines, _: {label: column(lines, key) for label, key in keys.items()}


def part(key: str) -> CurvesOf:
    """Returns one curve for each name in the metric's mapping: what `key` has within it."""

    def curves(lines: Sequence[Line], name: str) -> Curves:
        return {outer: column(lines, name, outer, key) for outer in named(lines, name)}

    return curves


def named(lines: Sequence[Line], key: str) -> list[str]:
    """Returns the keys of the lines' mapping `key`, in the order in which they appear."""
    return names(line.get(key) or {} for line in lines)


def names(each: Iterable[Iterable[str]]) -> list[str]:
    """Returns the names in all of these, such as keys of mappings, in the order in which they appear."""
    names: dict[str, None] = {}
    for some in each:
        names.update(dict.fromkeys(some))
    return list(names)


def with_curves(present: Sequence[Collection[str]]) -> list[str]:
    """Returns the members that have a curve, in the order in which they appear; `present` has those of each line.

    They are all that ever lived or, of more than `MOST_MEMBERS`, so many of those of the last quarter: those that lived
    last, and of these the youngest.
    """
    last = {name: index for index, some in enumerate(present) for name in some}
    if len(last) <= MOST_MEMBERS:
        return list(last)
    quarter = len(present) - max(1, len(present) // 4)
    recent = [name for name, index in last.items() if index >= quarter]
    # The order is stable: of those that lived equally long the youngest are still the last.
    newest = set(sorted(recent, key=last.__getitem__)[-MOST_MEMBERS:])
    return [name for name in recent if name in newest]


# What a metric counts, and what it says of itself.

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
