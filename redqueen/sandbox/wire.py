"""The zygote's end of the wire: what goes over it, and buffers that are filled, sent and wiped.

Child-side, standard library only.
"""

from __future__ import annotations

import os
import select
import struct

HEADER = struct.Struct("!III")  # bytes of the request (0: stop), wall milliseconds, most bytes of answer
REPLY = struct.Struct("!BiQI")  # how it was stopped, wait status, CPU microseconds, bytes of answer that follow
LIMITS = struct.Struct("!QQII")  # CPU microseconds, bytes of memory, passes, most bytes of a value
FRAME = struct.Struct("!cI")  # what it is, bytes that follow
unpack_limits, pack_frame = LIMITS.unpack_from, FRAME.pack
RAN, WALL, FLOOD, NO_FORK, STOPPED, PART = range(6)
LOCKED = b"L"  # the first byte of an answer: every door is shut and the program is about to start
VALUE, END = b"V", b"E"
CONTROL = 0
CHUNK = 1 << 16
LOOK_MS = 5


def relay(reader: int, answer: memoryview, cap: int) -> tuple[int, int, int]:
    """Read to the end, the cap, or the parent's order to stop, and pass on what came early.

    Returns why it ended, the bytes in `answer` that are not passed on yet, and how many it held at most.
    """
    # Without POLLIN on the pipe: the zygote sleeps while the child writes its small values.
    ends = select.poll()
    ends.register(reader, 0)
    ends.register(CONTROL, select.POLLIN)
    data = answer[REPLY.size :]
    used = size = 0
    while not (ready := ends.poll(LOOK_MS)) or ready[0][0] == CONTROL:
        if ready:
            if not receive(bytearray(HEADER.size), HEADER.size):
                os._exit(0)
            return STOPPED, 0, used  # the only order there is while a child runs
        if select.select([reader], (), (), 0)[0]:
            count = os.readv(reader, [data])
            cap, used = cap - count, max(used, count)
            reply(answer, PART, 0, 0, count)
            if cap < 0:
                return FLOOD, 0, used
    while count := os.readv(reader, [data[size:]]):
        cap, size = cap - count, size + count
        used = max(used, size)
        if cap < 0:
            return FLOOD, size, used
        if size == len(data):
            reply(answer, PART, 0, 0, size)
            size = 0
    return RAN, size, used


def reply(answer: memoryview, stop: int, status: int, microseconds: int, size: int) -> None:
    """Send the head and `size` bytes of `answer`."""
    REPLY.pack_into(answer, 0, stop, status, microseconds, size)
    send(answer[: REPLY.size + size])


def receive(buffer: bytearray, size: int) -> bool:
    """Exactly `size` bytes from the parent into `buffer`; False when it has gone."""
    at = 0
    with memoryview(buffer) as view:
        while at < size:
            count = os.readv(CONTROL, [view[at:size]])
            if not count:
                return False
            at += count
    return True


def send(data: bytes | memoryview) -> None:
    """All of `data` to the parent."""
    while data:
        data = data[os.write(CONTROL, data) :]


def grow(buffer: bytearray, size: int) -> None:
    """Room for `size` bytes."""
    if len(buffer) < size:
        buffer.extend(bytes(size - len(buffer)))


def wipe(buffer: bytearray, size: int) -> None:
    """Zeros over the first `size` bytes."""
    buffer[:size] = bytes(size)
