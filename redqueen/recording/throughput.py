"""A phase's throughput, memory and use of the device, from the work that was done in it."""

from __future__ import annotations

from collections.abc import Mapping

from redqueen.policy.work import Work
from redqueen.runs.metrics import ThroughputMetrics


def throughput(work_by_phase: Mapping[str, Work]) -> dict[str, ThroughputMetrics]:
    """Returns the throughput of each phase in which the policy sampled or trained."""
    return {name: _of(work) for name, work in work_by_phase.items() if work.sampling_s or work.training_s}


def _of(work: Work) -> ThroughputMetrics:
    seconds = work.sampling_s + work.training_s
    return {
        "sampled_per_second": _rate(work.sampled_tokens, work.sampling_s),
        "prompt_tokens": work.prompt_tokens,
        "decode_rows": _rate(work.sampled_tokens, work.decode_steps),
        "trained_rows_per_second": _rate(work.trained_rows, work.training_s),
        "mfu": None if work.peak_flops is None else round(work.flops / seconds / work.peak_flops, 4),
        "device_gib": None if work.device_bytes is None else _gib(work.device_bytes),
        "host_gib": _gib(work.host_bytes),
    }


def _rate(count: float, by: float) -> float | None:
    return round(count / by, 2) if count and by else None


def _gib(size: int) -> float:
    return round(size / 2**30, 3)
