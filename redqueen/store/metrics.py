"""The lines of metrics.jsonl, one for each step of a run, and their numbers by flat names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

StepMetrics = dict[str, Any]
"""One line: a step's metrics by name. docs/reference/METRICS.md says what each means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMetric:
    """What a run keeps of a metric of its plugins, so that it can be drawn without them."""

    name: str
    title: str
    unit: str
    text: str


def numbers(line: StepMetrics) -> dict[str, float | None]:
    """Returns every number of a step by its name, with "/" between the names of nested ones.

    A list (matches, replacements, champions) counts as its length. Texts, lists inside of others are left
    out, and so is the step itself, which is the axis. A rate or mean of nothing is None.
    """
    flat = dict(_flat(line, ""))
    flat |= {name: float(len(value)) for name, value in line.items() if isinstance(value, list)}
    flat.pop("step", None)
    return flat


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float | None]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(cast(Mapping[str, Any], value), f"{prefix}{name}/")
        elif value is None:
            yield f"{prefix}{name}", None
        elif isinstance(value, int | float):
            yield f"{prefix}{name}", float(value)
