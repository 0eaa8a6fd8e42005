"""A panel, and how its curves are taken from the lines of metrics.jsonl."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

Section = Literal["dynamics", "complexity", "coverage", "training", "league"]
Column = tuple[float | None, ...]
Curves = dict[str, Column]
# A line as a reader finds it. Another version of Red Queen may have written it, so any key can be missing.
Line = Mapping[str, Any]

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
    """The lower limit of the axis; None where it follows the data."""
    high: float | None
    """The upper limit of the axis; None where it follows the data."""
    steps: tuple[int, ...]
    curves: Mapping[str, Column]
    """By label, each as long as `steps`; None is a gap."""


def kinds_of(lines: Sequence[Line]) -> list[str]:
    """Returns the kinds of task that occur in the lines, in the order of the first line."""
    names: dict[str, None] = {}
    for line in lines:
        names.update(dict.fromkeys(line.get("solve_rate_by_kind") or {}))
    return list(names)


def standardised(by_kind: Mapping[str, float | None], kinds: Sequence[str]) -> float | None:
    """Returns the mean over `kinds`, each with the same weight; None if one of them has no value.

    The plain solve rate also moves when teachers write more of an easy kind. This one does not.
    """
    values = [value for kind in kinds if (value := by_kind.get(kind)) is not None]
    return fmean(values) if values and len(values) == len(kinds) else None


def panel(
    lines: Sequence[Line],
    key: str,
    section: Section,
    title: str,
    unit: str,
    note: str,
    curves: Mapping[str, Column],
    *,
    low: float | None = None,
    high: float | None = None,
) -> Panel:
    """Returns a panel; a curve without any value is left out."""
    shown = {label: column for label, column in curves.items() if any(value is not None for value in column)}
    steps = tuple(int(line["step"]) for line in lines)
    return Panel(
        key=key, section=section, title=title, unit=unit, note=note, low=low, high=high, steps=steps, curves=shown
    )


def share(
    lines: Sequence[Line], key: str, section: Section, title: str, note: str, curves: Mapping[str, Column]
) -> Panel:
    """Returns a panel of shares, from 0 to 1."""
    # The limits of a share are what is possible: a curve that hardly moves looks flat, in every run alike.
    return panel(lines, key, section, title, "share", note, curves, low=0, high=1)


def each(lines: Sequence[Line], value: Callable[[Line], float | None]) -> Column:
    """Returns a value of each line."""
    return tuple(value(line) for line in lines)


def column(lines: Sequence[Line], key: str) -> Column:
    """Returns the lines' number `key`."""
    return tuple(line.get(key) for line in lines)


def at(line: Line, *path: str) -> Any:
    """Returns what a line has at `path`, a key in a key, or None."""
    value: Any = line
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def by_key(lines: Sequence[Line], key: str) -> Curves:
    """Returns one curve for each name in the lines' mapping `key`."""
    found = names(line.get(key) or {} for line in lines)
    return {name: tuple((line.get(key) or {}).get(name) for line in lines) for name in found}


def names(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the keys of all mappings, in the order in which they appear."""
    names: dict[str, None] = {}
    for mapping in mappings:
        names.update(dict.fromkeys(mapping))
    return list(names)
