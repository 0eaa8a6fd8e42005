"""What the machine tells this process: its cores and the time."""

from __future__ import annotations

import os
from datetime import UTC, datetime


def cores() -> int:
    """Returns how many cores this process may use."""
    # The affinity mask counts, not the machine: in a container or under taskset the two differ, and threads beyond the
    # mask only slow each other down. Not every platform has the call.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def now() -> str:
    """Returns the time in UTC, e.g. "2026-01-31T12:00:00Z"."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
