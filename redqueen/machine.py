"""The resources that the machine gives this process."""

from __future__ import annotations

import os


def cores() -> int:
    """Returns how many cores this process may use."""
    # The affinity mask counts, not the machine: in a container or under taskset the two differ, and threads beyond the
    # mask only slow each other down. Not every platform has the call.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
