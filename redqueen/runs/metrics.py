"""The lines of metrics.jsonl, one for each step of a run."""

from __future__ import annotations

from typing import Any

StepMetrics = dict[str, Any]
"""One line: a step's metrics by name. docs/METRICS.md says what each means (`redqueen.recording.metrics.METRICS`)."""
