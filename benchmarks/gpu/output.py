"""Lines of a GPU day: what was measured, beside what was modelled or planned."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from benchmarks.gpu.clock import peak_gib


def say(name: str, value: object, predicted: object = None) -> None:
    """Prints a number, and what was predicted."""
    print(f"{name}: {value}" + (f"   [predicted {predicted}]" if predicted is not None else ""), flush=True)


def say_peak(planned: int) -> None:
    """Prints the most memory that tensors had on the GPU since `forget_peak`, and the planned bytes."""
    peak = peak_gib()
    plan = planned / 2**30
    measured = "not measured" if peak is None else f"{peak:.2f}, {peak / plan:.3f} of the plan"
    print(f"   peak GiB: {measured}   [planned {plan:.2f}]", flush=True)


@contextmanager
def host_waits(device: torch.device) -> Iterator[Counter[str]]:
    """Counts the lines at which the host waits for a GPU in a `with` block; nothing on a CPU."""
    lines: Counter[str] = Counter()
    if device.type != "cuda":
        yield lines
        return
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            yield lines
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for warning in seen:
        if "synchroniz" in str(warning.message):
            lines[f"{Path(warning.filename).name}:{warning.lineno}"] += 1
