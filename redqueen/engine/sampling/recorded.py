"""Work on a GPU that is recorded once for each number of rows, and then repeated by a single launch.

A decoding step is hundreds of short kernels. Launched one by one they take the host longer than the GPU.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import os
from collections.abc import Callable, Hashable
from typing import Protocol

import torch

from redqueen.errors import ModelError

VARIABLE = "REDQUEEN_GRAPHS"
"""The environment variable that chooses: `off` (nothing is recorded) or `auto` (the default)."""

_LOG = logging.getLogger("redqueen")

Work = Callable[[], None]

# Up to 64 rows, buckets are powers of two from 8 on; a step of a few rows takes as long as reading the weights. Above,
# they are multiples of 64, so that at most 63 rows are computed in vain.
_LEAST = 8
_WIDE = 64


def bucket_of(rows: int) -> int:
    """Returns the number of rows that work for `rows` rows is recorded for: 8, 16, 32, 64, 128, 192, 256, ..."""
    if rows > _WIDE:
        return -(-rows // _WIDE) * _WIDE
    return max(_LEAST, 1 << (rows - 1).bit_length())


class GraphRecorder(Protocol):
    """Records work that only reads and writes tensors which stay where they are."""

    def run(self, work: Work) -> None:
        """Does the work for the first time, unrecorded: kernels are compiled and loaded now."""
        ...

    def record(self, work: Work) -> Work:
        """Returns a function that repeats the work."""
        ...


class Repeater:
    """Does work by keys: the first time as it is, later by repeating what was recorded at the second time."""

    def __init__(self, recorder: GraphRecorder) -> None:
        self._recorder = recorder
        self._known: set[Hashable] = set()
        self._recorded: dict[Hashable, Work] = {}

    def __call__(self, key: Hashable, work: Work) -> None:
        """Does `work`, which must be the same for the same key."""
        if key not in self._known:
            self._known.add(key)
            self._recorder.run(work)
            return
        if key not in self._recorded and not _failures:
            try:
                self._recorded[key] = self._recorder.record(work)
            # A recording computes nothing, so the work can be done as it is. What is wrong with the work itself is
            # raised there.
            except RuntimeError as error:
                _failures.append(error)
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                _LOG.warning(
                    "the kernels of decode steps could not be recorded as CUDA graphs and are launched one by one from "
                    "now on, which is slower: %s",
                    reason,
                )
        # Work that is not recorded must not be kept: it refers to the batch, which would then outlive its end.
        self._recorded.get(key, work)()


# What went wrong with a recording. After the first failure nothing more is recorded in this process.
_failures: list[RuntimeError] = []


def recorder_of(device: torch.device) -> GraphRecorder | None:
    """Returns what records work on this device; None if nothing can or shall be recorded there.

    Raises ModelError if REDQUEEN_GRAPHS is neither `auto` nor `off`.
    """
    choice = os.environ.get(VARIABLE) or "auto"
    if choice not in ("auto", "off"):
        raise ModelError(f"{VARIABLE} is '{choice}': use auto or off")
    return CudaGraphs(device) if device.type == "cuda" and choice == "auto" and not _failures else None


@functools.cache
def _stream_of(device: torch.device) -> torch.cuda.Stream:
    """Returns the one stream of a GPU on which work is recorded."""
    # Memory that was allocated on a stream is used again on that stream only, and cuBLAS keeps a workspace for each. A
    # stream for each batch would take more memory with every step of a run.
    return torch.cuda.Stream(device)


class CudaGraphs:
    """Records CUDA graphs. They share one pool of memory, because only one of them runs at a time."""

    def __init__(self, device: torch.device) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        # A graph cannot be recorded on the default stream. First runs use the same stream, so that what libraries
        # allocate for each stream is there before something is recorded.
        self._stream = _stream_of(device)

    def run(self, work: Work) -> None:
        """Does the work on the stream of the recordings."""
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            work()
        current.wait_stream(self._stream)

    def record(self, work: Work) -> Work:
        """Returns the replay of a graph; the work itself is not done."""
        # `torch.cuda.graph` waits for the device, collects garbage and empties torch's cache of memory each time. Here
        # it is enough that no garbage is collected meanwhile, because that could free what a graph must not.
        graph = torch.cuda.CUDAGraph()
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    work()
                except BaseException:
                    # What went wrong is worth more than that the recording is therefore incomplete.
                    with contextlib.suppress(RuntimeError):
                        graph.capture_end()
                    raise
                graph.capture_end()
            torch.cuda.current_stream().wait_stream(self._stream)
        finally:
            if collecting:
                gc.enable()
        return graph.replay
