"""The lines of metrics.jsonl, one for each step of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

StepMetrics = dict[str, Any]
"""One line: a step's metrics by name. docs/reference/METRICS.md says what each means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMetric:
    """What a run keeps of a metric of its plugins, so that it can be drawn without them."""

    name: str
    title: str
    unit: str
    text: str
