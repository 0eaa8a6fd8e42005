"""What the page takes from the lines of metrics.jsonl. Any key can be missing: another version may have written it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

Line = Mapping[str, Any]


def named(lines: Sequence[Line], key: str) -> list[str]:
    """Returns the names in the lines' mapping `key`, in the order in which they appear."""
    found: dict[str, None] = {}
    for line in lines:
        found.update(dict.fromkeys(line.get(key) or {}))
    return list(found)


def column(lines: Sequence[Line], key: str, name: str) -> list[Any]:
    """Returns what each line's mapping `key` has under `name`; None where it has nothing."""
    return [(line.get(key) or {}).get(name) for line in lines]


def mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the values that are known; None without any."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
