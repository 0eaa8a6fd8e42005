"""Seconds of work on a device, and the memory that it takes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch


@dataclass(frozen=True, slots=True)
class Seconds:
    """The time of a call: medians of its turns."""

    wall: float
    """Until the device has done the work."""
    host: float
    """Until the host has queued it."""


def synchronize() -> None:
    """Waits until the GPU, if there is one, has done all that is queued."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(call: Callable[[], object], turns: int = 5, warm: int = 2) -> Seconds:
    """Returns the time of a call, after `warm` calls that do not count."""
    for _ in range(warm):
        call()
    walls: list[float] = []
    hosts: list[float] = []
    for _ in range(turns):
        synchronize()
        start = time.perf_counter()
        call()
        hosts.append(time.perf_counter() - start)
        synchronize()
        walls.append(time.perf_counter() - start)
    return Seconds(median(walls), median(hosts))


def forget_peak() -> None:
    """Gives unused memory back and counts the peak anew."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_gib() -> float | None:
    """Returns the most GiB that tensors had on the GPU since `forget_peak`; None without a GPU."""
    return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
