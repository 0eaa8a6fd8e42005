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
import mmap
import os
import resource
import signal
import sys
from ctypes import c_int
from gc import enable, freeze
from marshal import loads
from os import _exit, closerange, dup2, write
from types import FrameType
from typing import Any, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import blank
import heap
import lockdown
import seccomp
import steady
import text_encodings
import time_stamp
import vdso
import warm
from lines import count_lines
from lockdown import arm_cpu_timer, die_with_parent, limit_resources
from program import Rules, refuse_unseeded, run
from protocol import CHUNK, END, FRAME, HEADER, LIMITS, LOCKED, NO_FORK, RAN, REPLY, SIZE, START, VALUE, WALL, WATCH
from relay import receive, relay, reply, send, wipe
from seccomp import install
from steady import forget_numbers
from values import decode, encode

RESULT = 3
"""The descriptor that a child writes its answer to, and its only one."""

MOST_FILES = 64

_ALSO_LOADED = ("collections.abc", "unicodedata", "_pylong")
_RECURSION_STEP = 37
WARM_UP_JOBS = 4


def main(unrandomised: bool) -> None:
    """Prepares once, says what it achieved, then serves until the parent closes the socket."""
    try:
        hello, setup = prepare(unrandomised)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        hello = encode({"failed": f"{type(error).__name__}: {error}"[:500]})
        setup = None
    send(SIZE.pack(len(hello)) + hello)
    header = bytearray(HEADER.size)
    # Mapped and not allocated: where the heap has room must not depend on the requests of the past.
    standing = room(CHUNK)
    answer = bytearray(CHUNK)
    # Nothing of a job is alive when the heap is settled.
    jobs_left = WARM_UP_JOBS
    while setup is not None and receive(header, HEADER.size) and work_on(header, standing, answer, setup):
        heap.settle()
        if jobs_left:
            jobs_left -= 1
            if not jobs_left:
                heap.remember()
    os._exit(0)


def work_on(header: bytearray, standing: mmap.mmap, answer: bytearray, setup: Setup) -> bool:
    """Receives one job, serves it, and wipes what it wrote. Returns False if the parent has gone."""
    size, wall_ms, cap = HEADER.unpack(header)
    # An order to stop that came too late: the child had ended by itself.
    if not size:
        return True
    request = standing if size <= CHUNK else room(size)
    if not receive(request, size):
        return False
    with memoryview(request) as whole, whole[:size] as work, memoryview(answer) as out:
        used = serve(work, out, wall_ms / 1000, cap, setup)
    if request is standing:
        wipe(request, size)
    else:
        request.close()
    wipe(answer, used)
    return True


def room(size: int) -> mmap.mmap:
    """Memory of its own, outside the heap."""
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def read_start() -> tuple[int, int, tuple[str, tuple[str, ...], tuple[str, ...], str]]:
    """Reads the uid to take, the interpreter's number, and the rules for the programs of this zygote.

    The rules are: entry, modules, withheld builtins, standard input.
    """
    head = bytearray(START.size)
    receive(head, START.size)
    size, uid, variant = START.unpack(head)
    wipe(head, len(head))
    data = bytearray(size)
    receive(data, size)
    return uid, variant, decode(bytes(data))


class Setup(NamedTuple):
    """What a child needs to lock itself in and to run a program."""

    address_space: int
    """Bytes in use before the program does anything."""
    seccomp: seccomp.Filter | None
    """None where the kernel cannot have one."""
    rules: Rules
    numbers: list[c_int]
    """Where a child finds its process id."""
    gaps: list[object]
    """Objects that keep the shuffled heap shuffled."""


def prepare(unrandomised: bool) -> tuple[bytes, Setup]:
    """Does everything that reads files first, then gives up rights. Returns what was achieved, and the setup."""
    # The parent waits for the answer, so that an end of file before the profile means that it has gone.
    lockdown.die_with_parent()
    uid, variant, profile = read_start()
    entry, modules, withheld, stdin = profile
    for name in (*sorted(modules), *_ALSO_LOADED):
        # The division of large numbers is a module since Python 3.12.
        if name != "_pylong" or sys.version_info >= (3, 12):
            importlib.import_module(name)
    text_encodings.keep()
    rules = Rules.of(entry, modules, withheld, stdin, blank.strangers(modules), variant)
    warm.warm_up(rules)
    lockdown.scrub_environment()
    lockdown.be_first_to_go()
    steady.forget_start()
    blank.shut_random(variant, None if "random" in modules else refuse_unseeded)
    blank.forget_installation()
    # A result that depends on how deep a call may go differs between the interpreters.
    sys.setrecursionlimit(sys.getrecursionlimit() + variant * _RECURSION_STEP)
    base = lockdown.address_space()
    clocks = vdso.redirect_clocks() or time_stamp.refuse_time_stamps()
    lockdown.lower(resource.RLIMIT_NOFILE, MOST_FILES)
    # 0 is the socket; 1 and 2 lead to /dev/null.
    os.closerange(3, MOST_FILES)
    unprivileged = lockdown.drop_root(uid)
    lockdown.drop_capabilities()
    landlock = lockdown.deny_files_and_network()
    lockdown.undumpable()
    # Taking another uid has cleared it.
    lockdown.die_with_parent()
    lockdown.limit_for_good()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, on_alarm)
    wall = seccomp.Filter(seccomp.filter_program(lockdown.MACHINE, RESULT)) if seccomp.supported() else None
    if wall is not None and not seccomp.works(wall):
        wall = None
    numbers = steady.process_numbers()
    # Last: objects that are made after the shuffle would lie in plain order again.
    gc.collect()
    gaps = heap.shuffle(variant)
    gc.freeze()
    # A collection here, after some hundred jobs, would change the heap; a child has its own.
    gc.disable()
    achieved: dict[str, Any] = {"unprivileged": unprivileged, "landlock": landlock, "seccomp": wall is not None}
    achieved |= {"clocks": clocks, "unrandomised": unrandomised}
    return encode(achieved), Setup(base, wall, rules, numbers, gaps)


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
    # Not `os.wait4`, which leaves small blocks of memory behind in some of its calls.
    status = os.waitpid(pid, 0)[1]
    # `on_alarm` has cleared it if the wall clock ended the child.
    if _child == 0:
        stop = WALL
    _child = 0
    signal.setitimer(signal.ITIMER_REAL, 0)
    # Of all children so far: the parent subtracts, since the next child must not find what the last ones took.
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
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
        die_with_parent()
        cpu_us, memory, passes, value_limit, most_events = _unpack_limits(request)
        address_space, wall, rules, numbers, _ = setup
        forget_numbers(numbers)
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
        # From here on garbage is collected as in any Python, and at the same moments after whatever jobs: this sets all
        # counts to 0, and what is there already is no garbage.
        freeze()
        enable()
        pack = _pack_frame

        def tell(data: bytes, kind: bytes = VALUE) -> None:
            frame = pack(kind, len(data)) + data
            while frame:
                frame = frame[put(RESULT, frame) :]

        # Fails, and so ends this child, if the zygote ended before `die_with_parent`.
        put(RESULT, LOCKED)
        text, inputs = loads(request[LIMITS.size :])
        status, detail, code = run(rules, text, inputs, passes, value_limit, tell)
        tell(encode((status, detail[:500])), END)
        if most_events and code:
            count_lines(rules, code, inputs, most_events, tell, leave)
        leave(0)
    finally:
        _exit(1)


if __name__ == "__main__":
    main(len(sys.argv) > 1 and steady.restart_without_randomisation())
