"""Whether a reader of texts takes time in proportion to their length."""

import gc
import time
from collections.abc import Callable

LENGTH = 160_000
"""Characters of a text that a linear reader reads in a fraction of a second and a quadratic one in minutes."""
LIMIT_S = 20.0
"""Seconds of CPU time between the two, far from both, so that no processor is too slow."""


def cpu_seconds(work: Callable[[], object]) -> float:
    """Returns the CPU time of a call without the garbage collector, which would pass over what other tests left."""
    gc.disable()
    try:
        begin = time.process_time()
        work()
        return time.process_time() - begin
    finally:
        gc.enable()
