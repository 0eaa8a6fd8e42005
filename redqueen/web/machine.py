"""What the machine did: speed, use of the device and memory, phase by phase, from `throughput` in metrics.jsonl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redqueen.base.intervals import mean
from redqueen.recording.metrics.panel import Line, column, named
from redqueen.web.charts import chart
from redqueen.web.live_run import LiveRun

_CHARTS = (
    ("sampled_per_second", "Tokens sampled a second", "tokens / s", "Tokens sampled in a second of sampling."),
    (
        "trained_rows_per_second",
        "Tokens trained a second",
        "tokens / s",
        "Tokens through the model in a second of training, those of prompts included.",
    ),
    (
        "decode_rows",
        "Rows of a decode step",
        "rows",
        "Mean number of texts that are written at the same time. More of them use a GPU better.",
    ),
    (
        "mfu",
        "Use of the device",
        "share",
        "Model FLOPs over what the device could do in bf16 in the same time (MFU). Unknown where its peak is.",
    ),
    ("device_gib", "Memory of the GPU", "GiB", "The most that tensors had on the GPU in the phase."),
    ("host_gib", "Memory of the main process", "GiB", "The most that the run's main process has had so far."),
    ("prompt_tokens", "Prompt tokens", "tokens", "Tokens of prompts that were computed for sampling."),
)
_ENVIRONMENT = ("gpu", "processor", "cores", "device", "dtype", "threads")


def machine(run: LiveRun) -> dict[str, object]:
    """Returns the charts, a row for each phase, and what the run says of its machine."""
    lines = run.lines()
    environment = run.environment()
    charts = [_chart(lines, *arguments) for arguments in _CHARTS]
    charts.append(_seconds(lines))
    return {
        "phases": _phases(lines),
        "machine": [(name, str(environment[name])) for name in _ENVIRONMENT if environment.get(name) is not None],
        "panels": [panel for panel in charts if panel["curves"]],
    }


def _chart(lines: Sequence[Line], key: str, title: str, unit: str, note: str) -> dict[str, Any]:
    curves: list[dict[str, Any]] = []
    for phase in named(lines, "throughput"):
        values = column(lines, "throughput", phase, key)
        if any(values):
            curves.append({"label": phase, "values": values})
    if key == "host_gib":
        # The most so far is the same for all phases of a step, but for those before it grew.
        whole = [_most(line, key) for line in lines]
        curves = [{"label": "main process", "values": whole}] if any(whole) else []
    return chart(
        lines, "machine", key.replace("_", "-"), title, unit, note, curves, high=1 if unit == "share" else None
    )


def _most(line: Line, key: str) -> float | None:
    rates = [phase.get(key) for phase in (line.get("throughput") or {}).values()]
    return max((value for value in rates if value is not None), default=None)


def _seconds(lines: Sequence[Line]) -> dict[str, Any]:
    curves = [{"label": phase, "values": column(lines, "seconds", phase)} for phase in named(lines, "seconds")]
    return chart(lines, "machine", "step-seconds", "Seconds of a step", "seconds", "Wall time by phase.", curves)


def _phases(lines: Sequence[Line]) -> list[dict[str, object]]:
    """Returns the means of each phase over the last quarter of the steps, and its share of their time."""
    quarter = lines[-max(1, len(lines) // 4) :]
    total = sum(value or 0 for value in column(quarter, "seconds", "total"))
    rows: list[dict[str, object]] = []
    for phase in named(quarter, "seconds"):
        if phase == "total":
            continue
        seconds = column(quarter, "seconds", phase)
        share = sum(value or 0 for value in seconds) / total if total else None
        rows.append({"phase": phase, "seconds": mean(seconds), "share": share})
    return rows
