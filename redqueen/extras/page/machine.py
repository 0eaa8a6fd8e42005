"""What the machine did: speed, use of the device and memory, phase by phase, from `throughput` in metrics.jsonl."""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.base.intervals import mean
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.overview import panel_json
from redqueen.run.recording.metrics.panel import Curves, Line, MetricChart, by_key, column, named, part


def _chart(key: str, title: str, unit: str, note: str) -> MetricChart:
    def curves(lines: Sequence[Line], name: str) -> Curves:
        # A phase that does nothing of the kind has zeros.
        return {phase: values for phase, values in part(key)(lines, name).items() if any(values)}

    return MetricChart(f"machine-{key.replace('_', '-')}", title, note, curves, unit)


def _of_main_process(lines: Sequence[Line], name: str) -> Curves:
    # The most so far is the same for all phases of a step, but for those before it grew.
    def most(line: Line) -> float | None:
        found = [phase.get("host_gib") for phase in (line.get(name) or {}).values()]
        return max((value for value in found if value is not None), default=None)

    return {"main process": tuple(map(most, lines))}


_CHARTS = (
    _chart("sampled_per_second", "Tokens sampled a second", "tokens / s", "Tokens sampled in a second of sampling."),
    _chart(
        "trained_rows_per_second",
        "Tokens trained a second",
        "tokens / s",
        "Tokens through the model in a second of training, those of prompts included.",
    ),
    _chart(
        "decode_rows",
        "Rows of a decode step",
        "rows",
        "Mean number of texts that are written at the same time. More of them use a GPU better.",
    ),
    _chart(
        "mfu",
        "Use of the device",
        "share",
        "Model FLOPs over what the device could do in bf16 in the same time (MFU). Unknown where its peak is.",
    ),
    _chart("device_gib", "Memory of the GPU", "GiB", "The most that tensors had on the GPU in the phase."),
    MetricChart(
        "machine-host-gib",
        "Memory of the main process",
        "The most that the run's main process has had so far.",
        _of_main_process,
        "GiB",
    ),
    _chart("prompt_tokens", "Prompt tokens", "tokens", "Tokens of prompts that were computed for sampling."),
)
_SECONDS = MetricChart("machine-step-seconds", "Seconds of a step", "Wall time by phase.", by_key, "seconds")
_ENVIRONMENT = ("gpu", "processor", "cores", "device", "dtype", "threads")


def machine(run: LiveRun) -> dict[str, object]:
    """Returns the charts, a row for each phase, and what the run says of its machine."""
    lines = run.lines()
    environment = run.environment()
    drawn = [chart.panel(lines, "throughput", "machine", "") for chart in _CHARTS]
    drawn.append(_SECONDS.panel(lines, "seconds", "machine", ""))
    return {
        "phases": _phases(lines),
        "machine": [(name, str(environment[name])) for name in _ENVIRONMENT if environment.get(name) is not None],
        "panels": [panel_json(panel) for panel in drawn if panel.curves],
    }


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
