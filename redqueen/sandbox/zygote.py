"""The zygote: a warm interpreter that forks one child for each job.

It is started by exec and never by forking the trainer, whose memory and descriptors are nobody's business.

The wire, both ways over standard input (a socket): the parent sends a header and a request; the zygote
answers with the bytes that the child wrote, unread, and at last with how it ended. While a child runs the
parent may send a header without a request: end it now. Only the child decodes the request and only the
parent the answer. Both pass through buffers that are wiped after each job: every later child inherits the
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
from os import _exit, closerange, dup2, write
from types import FrameType
from typing import NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import heap
import lockdown
import program
import seccomp
import vdso
import warm
from lockdown import arm_cpu_timer, die_with_parent, limit_resources
from program import run
from seccomp import install
from values import decode, encode
from wire import (
    CHUNK,
    END,
    HEADER,
    LIMITS,
    LOCKED,
    NO_FORK,
    RAN,
    REPLY,
    VALUE,
    WALL,
    grow,
    pack_frame,
    receive,
    relay,
    reply,
    send,
    unpack_limits,
    wipe,
)

RESULT = 3
MOST_FILES = 64
_CODECS = "ascii latin_1 utf_8 utf_16 utf_16_le utf_16_be utf_32 cp1252 unicode_escape raw_unicode_escape"


def main() -> None:
    """Prepare once, say hello, then serve until the parent closes the socket."""
    try:
        hello, doors = prepare(uid=int(sys.argv[1]), parent=int(sys.argv[2]))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        hello, doors = encode({"failed": f"{type(error).__name__}: {error}"[:500]}), None
    send(struct.pack("!I", len(hello)) + hello)
    header, request, answer = bytearray(HEADER.size), bytearray(CHUNK), bytearray(CHUNK)
    while doors is not None and receive(header, HEADER.size):
        size, wall_ms, cap = HEADER.unpack(header)
        if not size:  # the child that was to stop had ended by itself
            continue
        grow(request, size)
        if not receive(request, size):
            break
        with memoryview(request) as asked, memoryview(answer) as told:
            used = serve(asked[:size], told, wall_ms / 1000, cap, doors)
        wipe(request, size)
        wipe(answer, used)
    os._exit(0)


class Doors(NamedTuple):
    """What a child needs to lock itself in."""

    address_space: int
    """Bytes in use before the program does anything."""
    seccomp: seccomp.Filter | None
    """None where the kernel cannot have one."""
    crumbs: list[object]
    """What keeps the shuffled heap shuffled."""


def prepare(uid: int, parent: int) -> tuple[bytes, Doors]:
    """Everything that reads files first, then everything that gives up rights. Returns what was achieved."""
    for name in (*sorted(program.ALLOWED_MODULES), "collections.abc", "unicodedata", "encodings.rot_13"):
        importlib.import_module(name)
    for name in _CODECS.split():
        "".encode(name)
    warm.warm_up()
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
    lockdown.limit_for_good()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, on_alarm)
    wall = seccomp.Filter(seccomp.filter_program(lockdown.MACHINE, RESULT)) if seccomp.supported() else None
    if wall is not None and not seccomp.works(wall):
        wall = None
    gc.collect()
    crumbs = heap.shuffle()
    gc.freeze()
    walls = {"unprivileged": unprivileged, "landlock": landlock, "seccomp": wall is not None, "clocks": clocks}
    return encode(walls), Doors(base, wall, crumbs)


_child = 0


def on_alarm(_signal: int, _frame: FrameType | None) -> None:
    """The wall clock ran out."""
    global _child
    if _child:
        os.kill(_child, signal.SIGKILL)
        _child = 0


def serve(request: memoryview, answer: memoryview, wall_s: float, cap: int, doors: Doors) -> int:
    """Fork a child for one request and pass on what it writes: at its end, and every few milliseconds before that.

    `answer` has room for a reply's head and then some bytes. Returns how many of its bytes were used.
    """
    global _child
    reader, writer = os.pipe()
    try:
        pid = lockdown.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        reply(answer, NO_FORK, 0, 0, 0)
        return REPLY.size
    if pid == 0:
        child(request, writer, doors)
    _child = pid
    os.close(writer)
    signal.setitimer(signal.ITIMER_REAL, wall_s)
    stop, size, used = relay(reader, answer, cap)
    if stop != RAN:
        os.kill(pid, signal.SIGKILL)
    os.close(reader)
    _, status, usage = os.wait4(pid, 0)
    if _child == 0:
        stop = WALL
    _child = 0
    signal.setitimer(signal.ITIMER_REAL, 0)
    reply(answer, stop, status, int((usage.ru_utime + usage.ru_stime) * 1e6), size)
    return REPLY.size + used


def child(request: memoryview, writer: int, doors: Doors) -> None:
    """The forked child: close the doors, run, tell each value and then the end, leave. Never returns."""
    # bare names: this runs unwarmed, where each attribute of a module is looked up the long way
    try:
        die_with_parent(_zygote)
        cpu_us, memory, passes, value_limit = unpack_limits(request)
        address_space, wall, _ = doors
        dup2(writer, RESULT)
        closerange(0, RESULT)
        closerange(RESULT + 1, MOST_FILES)
        limit_resources(address_space + memory, cpu_us)
        arm_cpu_timer(cpu_us)
        if wall:
            install(wall)
        put, leave, pack = write, _exit, pack_frame

        def tell(data: bytes, kind: bytes = VALUE) -> None:
            frame = pack(kind, len(data)) + data
            while frame:
                frame = frame[put(RESULT, frame) :]

        put(RESULT, LOCKED)
        text, inputs = decode(bytes(request[LIMITS.size :]))
        status, detail = run(text, inputs, passes, value_limit, tell)
        tell(encode((status, detail[:500])), END)
        leave(0)
    finally:
        _exit(1)


_zygote = os.getpid()

if __name__ == "__main__":
    main()
