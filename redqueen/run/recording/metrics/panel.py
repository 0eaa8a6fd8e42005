"""A panel, and how its curves are taken from the lines of metrics.jsonl."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

Section = Literal["dynamics", "complexity", "coverage", "training", "league", "own", "machine"]
Column = tuple[float | None, ...]
Curves = dict[str, Column]
# A line as a reader finds it. Another version of Red Queen may have written it, so any key can be missing.
Line = Mapping[str, Any]
CurvesOf = Callable[[Sequence[Line], str], Curves]
"""Takes the curves of the metric that is named from the lines."""
Limits = tuple[float | None, float | None]
"""The ends of an axis; None where it follows the data."""

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

    def panel(self, lines: Sequence[Line], name: str, section: Section, unit: str) -> Panel:
        """Returns the panel of the metric `name`; a curve without any value is left out."""
        if self.only:
            lines = [line for line in lines if line.get(self.only)]
        curves = self.curves(lines, name)
        curves = {label: column for label, column in curves.items() if any(value is not None for value in column)}
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
            note=self.note,
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


def standardised(by_kind: Mapping[str, float | None], kinds: Sequence[str]) -> float | None:
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


def names(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the keys of all mappings, in the order in which they appear."""
    names: dict[str, None] = {}
    for mapping in mappings:
        names.update(dict.fromkeys(mapping))
    return list(names)
