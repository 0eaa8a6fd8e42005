"""The numbers of a line of metrics.jsonl by flat names such as `solve_rate_by_kind/code_o`, for tables and trackers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from redqueen.store.metrics import StepMetrics


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
