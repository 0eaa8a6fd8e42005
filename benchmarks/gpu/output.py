"""Lines of a GPU day: what was measured, beside what was modelled or planned. They are printed and kept in a file."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from benchmarks.gpu.clock import peak_gib

FOLDER = "OUT"
"""The environment variable that names the folder of the results, `day.jsonl` among them; nothing is written without."""
PART = "REDQUEEN_DAY_PART"
"""The environment variable that names the part that is running."""


def folder() -> Path | None:
    """Returns the folder of the results."""
    named = os.environ.get(FOLDER)
    return Path(named) if named else None


def keep(**fields: object) -> None:
    """Appends a line to the results, at once: a machine may be gone before the day ends."""
    place = folder()
    if place is None:
        return
    place.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"part": os.environ.get(PART, ""), **fields}, default=str)
    with (place / "day.jsonl").open("a") as file:
        file.write(f"{line}\n")


def say(name: str, value: object, predicted: object = None) -> None:
    """Prints a number, and what was predicted."""
    print(f"{name}: {value}" + (f"   [predicted {predicted}]" if predicted is not None else ""), flush=True)
    keep(name=name.strip(), value=value, predicted=predicted)


def say_peak(planned: int) -> None:
    """Prints the most memory that tensors had on the GPU since `forget_peak`, and the planned bytes."""
    peak = peak_gib()
    plan = planned / 2**30
    measured = "not measured" if peak is None else f"{peak:.2f}, {peak / plan:.3f} of the plan"
    print(f"   peak GiB: {measured}   [planned {plan:.2f}]", flush=True)
    keep(name="peak GiB", value=peak, predicted=round(plan, 2))


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
