"""The zygote: a warm interpreter that forks one child for each job.

It is started by exec and never by forking the trainer, so that no child inherits the trainer's memory or descriptors.
When it is ready it becomes a mother (`mother.py`), and what follows here is a child's: it reads one request, locks
itself in, runs the program and writes its answer, all over a socket of its own (`protocol.py`).
"""

from __future__ import annotations

import gc
import importlib
import mmap
import os
import resource
import signal
import sys
from ctypes import byref, c_char, c_int, c_size_t
from gc import enable, freeze
from marshal import loads
from os import _exit, closerange, write
from typing import Any, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import blank
import build
import heap
import lockdown
import seccomp
import steady
import text_encodings
import time_stamp
import vdso
import warm
from lockdown import arm_cpu_timer, die_with_parent, limit_resources
from mother import Mother
from program import LOOKS, Rules, refuse_unseeded, run
from protocol import END, FRAME, LIMITS, LOCKED, MOST_START_BYTES, ORDERS, PROCESSORS_BYTES, RESULT, START, VALUE
from seccomp import install
from steady import forget_numbers
from values import decode, encode

MOST_FILES = 64

_ALSO_LOADED = ("collections.abc", "unicodedata", "_pylong")
_RECURSION_STEP = 37


def main(unrandomised: bool) -> None:
    """Prepares once, says what it achieved, then serves until the parent closes the socket."""
    try:
        hello, setup = prepare(unrandomised)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        write(ORDERS, encode({"failed": f"{type(error).__name__}: {error}"[:500]}))
        _exit(1)
    write(ORDERS, hello)
    setup.mother.serve(setup.mothers)
    child(setup)


class Setup(NamedTuple):
    """What a child needs to lock itself in and to run a program."""

    address_space: int
    """Bytes in use before the program does anything."""
    seccomp: seccomp.Filter | None
    """None where the kernel cannot have one."""
    rules: Rules
    numbers: list[c_int]
    """Where a child finds its process id, if it does."""
    gaps: list[object]
    """Objects that keep the shuffled heap shuffled."""
    mother: Mother
    mothers: int
    """How many of them."""


def prepare(unrandomised: bool) -> tuple[bytes, Setup]:
    """Does everything that reads files first, then gives up rights. Returns what was achieved, and the setup."""
    # The parent waits for the answer, so that an end of file before the profile means that it has gone.
    lockdown.die_with_parent()
    data = os.read(ORDERS, MOST_START_BYTES)
    mothers, uid, variant = START.unpack_from(data)
    entry, modules, withheld, stdin, paths = decode(data[START.size :])
    sys.path += paths
    for name in (*sorted(modules), *_ALSO_LOADED):
        # The division of large numbers is a module since Python 3.12.
        if name != "_pylong" or sys.version_info >= (3, 12):
            importlib.import_module(name)
    text_encodings.keep()
    rules = Rules.of(entry, modules, withheld, stdin, blank.strangers(modules), variant)
    if variant > LOOKS:
        build.move(variant)
        rules.builtins["id"] = build.other_id(variant)
    warm.warm_up(rules)
    mother = Mother()
    lockdown.scrub_environment()
    lockdown.be_first_to_go()
    steady.forget_start()
    blank.shut_random(variant, None if "random" in modules else refuse_unseeded)
    blank.forget_installation(shows_version="sys" in modules)
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
    wall = seccomp.Filter(seccomp.filter_program(lockdown.MACHINE, RESULT)) if seccomp.supported() else None
    if wall is not None and not seccomp.works(wall):
        wall = None
    numbers = steady.process_numbers()
    if not mother.traces:
        # They are not written again.
        forget_numbers(numbers)
        numbers.clear()
    # Last: objects that are made after the shuffle would lie in plain order again.
    gc.collect()
    gaps = heap.shuffle(variant)
    gc.freeze()
    # A collection here, after some hundred jobs, would change the heap; a child has its own.
    gc.disable()
    achieved: dict[str, Any] = {"unprivileged": unprivileged, "landlock": landlock, "seccomp": wall is not None}
    achieved |= {"clocks": clocks, "unrandomised": unrandomised, "traces": mother.traces}
    return encode(achieved), Setup(base, wall, rules, numbers, gaps, mother, mothers)


# The whole of it in one call: how many calls it takes must not depend on when the bytes come.
_WAIT_FOR_ALL = 0x100 if lockdown.LINUX else 0x40
_receive = lockdown.libc.recv
_limits = bytearray(LIMITS.size + PROCESSORS_BYTES)
_unpack_limits = LIMITS.unpack_from
_processors = slice(LIMITS.size, None)
_no_processors = bytes(PROCESSORS_BYTES)
_set_processors = lockdown.processors_setter(c_char.from_buffer(_limits, LIMITS.size), PROCESSORS_BYTES)
_pack_frame = FRAME.pack
_spare = mmap.mmap(-1, 1 << 22, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
_END = encode(("memory", ""))
_NO_MEMORY = FRAME.pack(END, len(_END)) + _END


def child(setup: Setup) -> None:
    """A child: gives up its rights, runs the program, writes each value and then the end. Never returns."""
    # Bare names: the interpreter has not specialised this function, and looks up each attribute the slow way. Copies
    # of its own: a program may replace the names in this module, and its answer must still be written.
    put = write
    leave = _exit
    spare = _spare
    try:
        die_with_parent()
        limits = _limits
        receive(limits)
        size, cpu_us, memory, passes, value_limit = _unpack_limits(limits)
        request = bytearray(size)
        receive(request)
        _set_processors()
        # No trace of them: which they are differs between validation and grading.
        limits[_processors] = _no_processors
        address_space, wall, rules, numbers, _, _, _ = setup
        forget_numbers(numbers)
        closerange(0, RESULT)
        closerange(RESULT + 1, MOST_FILES)
        limit_resources(address_space + memory, cpu_us)
        arm_cpu_timer(cpu_us)
        if wall:
            install(wall)
        # From here on garbage is collected as in any Python, and at the same moments after whatever jobs: this sets all
        # counts to 0, and what is there already is no garbage.
        freeze()
        enable()
        pack = _pack_frame

        def tell(data: bytes, kind: bytes = VALUE) -> None:
            frame = pack(kind, len(data)) + data
            while frame:
                frame = frame[put(RESULT, frame) :]

        # Fails, and so ends this child, if the parent ended before `die_with_parent`.
        put(RESULT, LOCKED)
        text, inputs = loads(request)
        status, detail = run(rules, text, inputs, passes, value_limit, tell)
        tell(encode((status, detail[:500])), END)
        leave(0)
    except MemoryError:
        # The program still holds what there was.
        spare.close()
        put(RESULT, _NO_MEMORY)
        leave(0)
    finally:
        _exit(1)


def receive(buffer: bytearray) -> None:
    """Fills `buffer` with what the parent has sent. Ends this child if that is less."""
    if _receive(RESULT, byref(c_char.from_buffer(buffer)), c_size_t(len(buffer)), _WAIT_FOR_ALL) != len(buffer):
        _exit(1)


if __name__ == "__main__":
    main(len(sys.argv) > 1 and steady.restart_without_randomisation())
