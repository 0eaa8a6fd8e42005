"""What the jail asks and sets of the machine and of its own process."""

from __future__ import annotations

import os
import signal
import threading


def cores() -> int:
    """Returns how many cores this process may use."""
    # The affinity mask counts, not the machine: in a container or under taskset the two differ, and threads beyond the
    # mask only slow each other down. Not every platform has the call.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def hear_of_children() -> None:
    """Has the kernel say how child processes end. Its parent may have set that it does not."""
    # Only the main thread may. In another one the sandbox says that it does not start, and why.
    ignored = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
