"""The zygote: a warm interpreter that forks one child for each job.

It is started by exec and never by forking the trainer, so that no child inherits the trainer's memory or descriptors.

`protocol.py` says what goes over its standard input, a socket to the parent. The zygote passes on what a child writes
without reading it: only the child decodes the request and only the parent decodes the answer. Both go through buffers
that are wiped after each job, because every later child inherits the zygote's memory, and one program's results may be
the answers to the next one's questions.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import signal
import sys
from os import _exit, closerange, dup2, write
from types import FrameType
from typing import NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import heap
import lockdown
import seccomp
import vdso
import warm
from lockdown import arm_cpu_timer, die_with_parent, limit_resources
from program import Rules, run
from protocol import CHUNK, END, FRAME, HEADER, LIMITS, LOCKED, NO_FORK, RAN, REPLY, SIZE, VALUE, WALL, WATCH
from relay import grow, receive, relay, reply, send, wipe
from seccomp import install
from values import decode, encode

RESULT = 3
"""The descriptor that a child writes its answer to, and its only one."""

MOST_FILES = 64

_ALSO_LOADED = ("collections.abc", "unicodedata", "encodings.rot_13")
_CODECS = "ascii latin_1 utf_8 utf_16 utf_16_le utf_16_be utf_32 cp1252 unicode_escape raw_unicode_escape"


def main() -> None:
    """Prepares once, says what it achieved, then serves until the parent closes the socket."""
    try:
        profile = read_profile()
        hello, setup = prepare(profile, uid=int(sys.argv[1]), parent=int(sys.argv[2]))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        hello = encode({"failed": f"{type(error).__name__}: {error}"[:500]})
        setup = None
    send(SIZE.pack(len(hello)) + hello)
    header = bytearray(HEADER.size)
    request = bytearray(CHUNK)
    answer = bytearray(CHUNK)
    while setup is not None and receive(header, HEADER.size):
        size, wall_ms, cap = HEADER.unpack(header)
        # An order to stop that came too late: the child had ended by itself.
        if not size:
            continue
        grow(request, size)
        if not receive(request, size):
            break
        with memoryview(request) as work, memoryview(answer) as out:
            used = serve(work[:size], out, wall_ms / 1000, cap, setup)
        wipe(request, size)
        wipe(answer, used)
    os._exit(0)


def read_profile() -> tuple[str, tuple[str, ...], tuple[str, ...], str]:
    """Reads the rules for the programs of this zygote: entry, modules, withheld builtins, standard input."""
    head = bytearray(SIZE.size)
    receive(head, SIZE.size)
    data = bytearray(SIZE.unpack(head)[0])
    receive(data, len(data))
    return decode(bytes(data))


class Setup(NamedTuple):
    """What a child needs to lock itself in and to run a program."""

    address_space: int
    """Bytes in use before the program does anything."""
    seccomp: seccomp.Filter | None
    """None where the kernel cannot have one."""
    rules: Rules
    gaps: list[object]
    """Objects that keep the shuffled heap shuffled."""


def prepare(profile: tuple[str, tuple[str, ...], tuple[str, ...], str], uid: int, parent: int) -> tuple[bytes, Setup]:
    """Does everything that reads files first, then gives up rights. Returns what was achieved, and the setup."""
    entry, modules, withheld, stdin = profile
    for name in (*sorted(modules), *_ALSO_LOADED):
        importlib.import_module(name)
    for name in _CODECS.split():
        "".encode(name)
    rules = Rules.of(entry, modules, withheld, stdin)
    warm.warm_up(rules)
    lockdown.scrub_environment()
    sys.argv[:] = [""]
    sys.orig_argv[:] = []
    sys.path.clear()
    sys.path_importer_cache.clear()
    base = lockdown.address_space()
    clocks = vdso.redirect_clocks()
    lockdown.lower(resource.RLIMIT_NOFILE, MOST_FILES)
    # 0 is the socket; 1 and 2 lead to /dev/null.
    os.closerange(3, MOST_FILES)
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
    # Last: objects that are made after the shuffle would lie in plain order again.
    gc.collect()
    gaps = heap.shuffle()
    gc.freeze()
    achieved = {"unprivileged": unprivileged, "landlock": landlock, "seccomp": wall is not None, "clocks": clocks}
    return encode(achieved), Setup(base, wall, rules, gaps)


_child = 0


def on_alarm(_signal: int, _frame: FrameType | None) -> None:
    """The wall clock ran out."""
    global _child
    if _child:
        os.kill(_child, signal.SIGKILL)
        _child = 0


def serve(request: memoryview, answer: memoryview, wall_s: float, cap: int, setup: Setup) -> int:
    """Forks a child for one request and passes on what it writes: every few milliseconds, and at its end.

    `answer` has room for a reply's head and then some bytes. Returns how many of its bytes were used.
    """
    global _child
    reader, writer = os.pipe()
    try:
        pid = lockdown.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        read_watch()
        reply(answer, NO_FORK, 0, 0, 0)
        return REPLY.size
    if pid == 0:
        child(request, writer, setup)
    _child = pid
    os.close(writer)
    signal.setitimer(signal.ITIMER_REAL, wall_s)
    stop, size, used = relay(reader, answer, cap, pid, read_watch())
    if stop != RAN:
        os.kill(pid, signal.SIGKILL)
    os.close(reader)
    _, status, usage = os.wait4(pid, 0)
    # `on_alarm` has cleared it if the wall clock ended the child.
    if _child == 0:
        stop = WALL
    _child = 0
    signal.setitimer(signal.ITIMER_REAL, 0)
    reply(answer, stop, status, int((usage.ru_utime + usage.ru_stime) * 1e6), size)
    return REPLY.size + used


def read_watch() -> int:
    """Reads what follows a request and must not be in this process's memory when it forks."""
    data = bytearray(WATCH.size)
    receive(data, WATCH.size)
    return WATCH.unpack(data)[0]


_unpack_limits = LIMITS.unpack_from
_pack_frame = FRAME.pack


def child(request: memoryview, writer: int, setup: Setup) -> None:
    """The forked child: gives up its rights, runs the program, writes each value and then the end. Never returns."""
    # Bare names: the interpreter has not specialised this function, and looks up each attribute the slow way.
    try:
        die_with_parent(_zygote)
        cpu_us, memory, passes, value_limit = _unpack_limits(request)
        address_space, wall, rules, _ = setup
        dup2(writer, RESULT)
        closerange(0, RESULT)
        closerange(RESULT + 1, MOST_FILES)
        limit_resources(address_space + memory, cpu_us)
        arm_cpu_timer(cpu_us)
        if wall:
            install(wall)
        # Copies of its own: a program may replace the names in this module, and its answer must still be written.
        put = write
        leave = _exit
        pack = _pack_frame

        def tell(data: bytes, kind: bytes = VALUE) -> None:
            frame = pack(kind, len(data)) + data
            while frame:
                frame = frame[put(RESULT, frame) :]

        put(RESULT, LOCKED)
        text, inputs = decode(bytes(request[LIMITS.size :]))
        status, detail = run(rules, text, inputs, passes, value_limit, tell)
        tell(encode((status, detail[:500])), END)
        leave(0)
    finally:
        _exit(1)


_zygote = os.getpid()

if __name__ == "__main__":
    main()
