"""The zygote: a warm interpreter that forks one child for each job.

It is started by exec and never by forking the trainer, whose memory and descriptors are nobody's business.

The wire, both ways over standard input (a socket): the parent sends a header and a request; the zygote
answers with how the child ended and the bytes it wrote, unread. Only the child decodes the request and only
the parent the answer. Both pass through buffers that are wiped after each job: every later child inherits the
zygote's memory, and one program's results may be the answers to the next one's questions.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import signal
import struct
import sys
from types import FrameType
from typing import NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import heap
import lockdown
import program
import seccomp
import vdso
from values import decode, encode

HEADER = struct.Struct("!III")  # bytes of the request, wall milliseconds, most bytes of answer
REPLY = struct.Struct("!BiQI")  # how it was stopped, wait status, CPU microseconds, bytes of answer
FRAME = struct.Struct("!I")
RAN, WALL, FLOOD, NO_FORK = range(4)
LOCKED = b"L"  # the first byte of an answer: every door is shut and the program is about to start
CONTROL = 0
RESULT = 3
MOST_FILES = 64
CHUNK = 1 << 16
_CODECS = "ascii latin_1 utf_8 utf_16 utf_16_le utf_16_be utf_32 cp1252 unicode_escape raw_unicode_escape"


def main() -> None:
    """Prepare once, say hello, then serve until the parent closes the socket."""
    try:
        hello, doors = prepare(uid=int(sys.argv[1]), parent=int(sys.argv[2]))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        hello, doors = encode({"failed": f"{type(error).__name__}: {error}"[:500]}), None
    send(FRAME.pack(len(hello)) + hello)
    header, request, answer = bytearray(HEADER.size), bytearray(1 << 16), bytearray(1 << 16)
    while doors is not None and receive(header, HEADER.size):
        size, wall_ms, cap = HEADER.unpack(header)
        grow(request, size)
        grow(answer, cap + CHUNK)
        if not receive(request, size):
            break
        with memoryview(request) as asked, memoryview(answer) as told:
            reply = serve(asked[:size], told, wall_ms / 1000, cap, doors)
            used = REPLY.unpack(reply)[-1]
            send(reply)
            send(told[:used])
        wipe(request, size)
        wipe(answer, used or len(answer))
    os._exit(0)


class Doors(NamedTuple):
    """What a child needs to lock itself in."""

    address_space: int
    """Bytes in use before the program does anything."""
    seccomp: bytes
    """The filter; empty where the kernel cannot have one."""
    crumbs: list[object]
    """What keeps the shuffled heap shuffled."""


def prepare(uid: int, parent: int) -> tuple[bytes, Doors]:
    """Everything that reads files first, then everything that gives up rights. Returns what was achieved."""
    for name in (*sorted(program.ALLOWED_MODULES), "collections.abc", "unicodedata", "encodings.rot_13"):
        importlib.import_module(name)
    for name in _CODECS.split():
        "".encode(name)
    lockdown.scrub_environment()
    sys.argv[:] = [""]
    sys.orig_argv[:] = []
    sys.path.clear()
    sys.path_importer_cache.clear()
    base = lockdown.address_space()
    clocks = vdso.redirect_clocks()
    lockdown.lower(resource.RLIMIT_NOFILE, MOST_FILES)
    os.closerange(3, MOST_FILES)  # 0 is the socket, 1 and 2 lead to /dev/null
    unprivileged = lockdown.drop_root(uid)
    lockdown.drop_capabilities()
    landlock = lockdown.deny_files_and_network()
    lockdown.undumpable()
    lockdown.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, on_alarm)
    code = seccomp.filter_program(lockdown.MACHINE, RESULT) if seccomp.supported() else b""
    if code and not seccomp.works(code):
        code = b""
    gc.collect()
    crumbs = heap.shuffle()
    gc.freeze()
    walls = {"unprivileged": unprivileged, "landlock": landlock, "seccomp": bool(code), "clocks": clocks}
    return encode(walls), Doors(base, code, crumbs)


_child = 0


def on_alarm(_signal: int, _frame: FrameType | None) -> None:
    """The wall clock ran out."""
    global _child
    if _child:
        os.kill(_child, signal.SIGKILL)
        _child = 0


def serve(request: memoryview, answer: memoryview, wall_s: float, cap: int, doors: Doors) -> bytes:
    """Fork a child for one request, read what it writes into `answer`, and pack how it ended."""
    global _child
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return REPLY.pack(NO_FORK, 0, 0, 0)
    if pid == 0:
        child(request, writer, doors)
    _child = pid
    os.close(writer)
    signal.setitimer(signal.ITIMER_REAL, wall_s)
    size = 0
    while size <= cap and (count := os.readv(reader, [answer[size : size + CHUNK]])):
        size += count
    stop = FLOOD if size > cap else RAN
    if stop == FLOOD:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    if _child == 0:
        stop = WALL
    _child = 0
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.close(reader)
    microseconds = int((usage.ru_utime + usage.ru_stime) * 1e6)
    return REPLY.pack(stop, status, microseconds, 0 if stop == FLOOD else size)


def child(request: memoryview, writer: int, doors: Doors) -> None:
    """The forked child: close the doors, run, write one frame, leave. Never returns."""
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        lockdown.die_with_parent(_zygote)
        text, inputs, passes, cpu_us, memory, value_limit = decode(bytes(request))
        os.dup2(writer, RESULT)
        os.closerange(0, RESULT)
        os.closerange(RESULT + 1, MOST_FILES)
        lockdown.limit_resources(doors.address_space + memory, cpu_us / 1e6)
        lockdown.arm_cpu_timer(cpu_us)
        if doors.seccomp:
            seccomp.install(doors.seccomp)
        write, leave = os.write, os._exit
        write(RESULT, LOCKED)
        data = encode(program.run(text, inputs, passes, value_limit), 1 << 28)
        frame = FRAME.pack(len(data)) + data
        while frame:
            frame = frame[write(RESULT, frame) :]
        leave(0)
    finally:
        os._exit(1)


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


_zygote = os.getpid()

if __name__ == "__main__":
    main()
