"""The zygote's end of the socket: buffers that are filled, sent and wiped, and a child's bytes passed on unread.

Child-side, standard library only.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import time

from protocol import CHUNK, CPU, FLOOD, HEADER, PART, RAN, REPLY, STOPPED

SOCKET = 0
"""The zygote's standard input is its socket to the parent."""

LOOK_MS = 5
"""While a child runs, its bytes are passed on this often."""


def relay(reader: int, answer: memoryview, cap: int, pid: int, watch_us: int) -> tuple[int, int, int]:
    """Reads a child's bytes to their end, to a limit or to the parent's order to stop, and passes on what came early.

    Returns why it ended, how many bytes in `answer` are not passed on yet, and how many it held at most.
    """
    # The pipe is registered without POLLIN: the zygote sleeps while the child writes its small values.
    ends = select.poll()
    ends.register(reader, 0)
    ends.register(SOCKET, select.POLLIN)
    data = answer[REPLY.size :]
    used = 0
    while not (ready := ends.poll(LOOK_MS)) or ready[0][0] == SOCKET:
        if ready:
            # The parent sends nothing while a child runs but the order to stop it.
            if not receive(bytearray(HEADER.size), HEADER.size):
                os._exit(0)
            return STOPPED, 0, used
        if watch_us and cpu_us(pid) > watch_us:
            return CPU, 0, used
        if select.select([reader], (), (), 0)[0]:
            count = os.readv(reader, [data])
            cap -= count
            used = max(used, count)
            reply(answer, PART, 0, 0, count)
            if cap < 0:
                return FLOOD, 0, used
    # The child has closed the pipe: what is left in it is read without waiting.
    size = 0
    while count := os.readv(reader, [data[size:]]):
        cap -= count
        size += count
        used = max(used, size)
        if cap < 0:
            return FLOOD, size, used
        if size == len(data):
            reply(answer, PART, 0, 0, size)
            size = 0
    return RAN, size, used


def cpu_us(pid: int) -> int:
    """CPU time of another process so far (0 where the system does not say)."""
    # The number of a process's CPU clock, as `clock_getcpuclockid` of the C library makes it.
    with contextlib.suppress(OSError):
        return time.clock_gettime_ns((~pid << 3) | 2) // 1000
    return 0


def reply(answer: memoryview, stop: int, status: int, microseconds: int, size: int) -> None:
    """Sends the head and `size` bytes of `answer`."""
    REPLY.pack_into(answer, 0, stop, status, microseconds, size)
    send(answer[: REPLY.size + size])


def receive(buffer: bytearray | mmap.mmap, size: int) -> bool:
    """Reads exactly `size` bytes from the parent into `buffer`. Returns False if the parent has gone."""
    at = 0
    with memoryview(buffer) as view:
        while at < size:
            count = os.readv(SOCKET, [view[at:size]])
            if not count:
                return False
            at += count
    return True


def send(data: bytes | memoryview) -> None:
    """Writes all of `data` to the parent."""
    while data:
        data = data[os.write(SOCKET, data) :]


_ZEROS = memoryview(bytes(CHUNK))


def wipe(buffer: bytearray | mmap.mmap, size: int) -> None:
    """Writes zeros over the first `size` bytes, at most `CHUNK`."""
    # Through views: a copy would leave its size behind in the heap.
    with memoryview(buffer) as view:
        view[:size] = _ZEROS[:size]
