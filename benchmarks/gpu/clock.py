"""Seconds of work on a device, and the memory that it takes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median

import torch


def device_for(*, tiny: bool) -> torch.device:
    """Returns the device that a part measures."""
    return torch.device("cpu" if tiny else "cuda")


def synchronize() -> None:
    """Waits until the GPU, if there is one, has done all that is queued."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(call: Callable[[], object], turns: int = 5, warm: int = 2) -> float:
    """Returns the median seconds of a call until the device has done its work, after `warm` calls that do not count."""
    for _ in range(warm):
        call()
    seconds: list[float] = []
    for _ in range(turns):
        synchronize()
        start = time.perf_counter()
        call()
        synchronize()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def forget_peak() -> None:
    """Gives unused memory back and counts the peak anew."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def reserved_gb() -> float | None:
    """Returns the most GB that torch has reserved on the GPU since `forget_peak`; None without a GPU."""
    return round(torch.cuda.max_memory_reserved() / 1e9, 2) if torch.cuda.is_available() else None
