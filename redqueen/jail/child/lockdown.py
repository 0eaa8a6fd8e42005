"""System calls through ctypes: what the zygote and its children give up for good.

Child-side, standard library only. ctypes is imported here, while files can still be opened.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from resource import RLIM_INFINITY, RLIMIT_AS, RLIMIT_CPU, RLIMIT_NOFILE, RLIMIT_NPROC, getrlimit, setrlimit
from typing import Any

LINUX = sys.platform.startswith("linux")
MACHINE = os.uname().machine

_EVERYWHERE = {"landlock_create_ruleset": 444, "landlock_restrict_self": 446}
_NUMBERS = {
    "x86_64": {"timer_create": 222, "timer_settime": 223, "capset": 126, **_EVERYWHERE},
    "aarch64": {"timer_create": 107, "timer_settime": 110, "capset": 91, **_EVERYWHERE},
}
CALLS: dict[str, int] = _NUMBERS.get(MACHINE, {}) if LINUX else {}

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522
_LANDLOCK_VERSION = 1
_NOBODY = 65_534
_CLOCK_PROCESS_CPUTIME_ID = 2
_SIGEVENT_BYTES = 64

libc: Any = ctypes.CDLL(None, use_errno=True)
# PyDLL, because it keeps the interpreter's lock, with which the child then starts.
_fork: Any = ctypes.PyDLL(None, use_errno=True).fork
_syscall: Any = libc.syscall if LINUX else None
_NUMBER_OF = {name: ctypes.c_long(number) for name, number in CALLS.items()}


def system_call(name: str, *arguments: Any) -> int:
    """Makes a raw system call. Raises OSError, with the name of the call, if it fails."""
    result = _syscall(_NUMBER_OF[name], *arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(result)


def prctl_arguments(option: int, *arguments: int) -> tuple[Any, ...]:
    """The five arguments of `prctl`, all but the first as longs."""
    return (option, *(ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]))


def prctl(arguments: tuple[Any, ...]) -> None:
    """Calls `prctl` with what `prctl_arguments` made. Raises OSError if it fails."""
    if _prctl(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {arguments[0]}: {os.strerror(number)}")


def machine_code(code: bytes) -> int:
    """Returns the address of a page that holds some machine code for good. Raises OSError if the system forbids it."""
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    page.write(code)
    _code_pages.append(page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), _PROT_READ | _PROT_EXEC) != 0:
        raise OSError(ctypes.get_errno(), "no machine code of our own: mprotect")
    return address


_code_pages: list[mmap.mmap] = []
_PROT_READ, _PROT_EXEC = 1, 4


def fork() -> int:
    """Forks without the work that `os.fork` does afterwards, which is for threads and touches seventy pages.

    The zygote has one thread and no child starts a second one. Raises OSError if the kernel refuses.
    """
    if not LINUX:
        return os.fork()
    pid = int(_fork())
    if pid < 0:
        raise OSError(ctypes.get_errno(), "fork")
    return pid


# This and the other arguments of calls below are made before the fork: every object made in a child costs it pages.
_prctl: Any = libc.prctl if LINUX else None
_DEATH_SIGNAL = prctl_arguments(_PR_SET_PDEATHSIG, signal.SIGKILL)


def die_with_parent() -> None:
    """Has this process killed when the thread that started it ends.

    If that has happened already, what is read from the parent or written to it next finds a closed end.
    """
    if LINUX:
        prctl(_DEATH_SIGNAL)


def be_first_to_go() -> None:
    """Asks the kernel to end this process and its children first when the machine runs out of memory."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb") as file:
        file.write(b"1000")


def processors_setter(numbers: Any, size: int) -> Callable[[], object]:
    """Returns a function that restricts this process to the processors whose bits are set in `numbers` by then.

    It does nothing where the system has no such call or refuses it.
    """
    if not LINUX:
        return lambda: None
    return functools.partial(libc.sched_setaffinity, 0, ctypes.c_size_t(size), ctypes.byref(numbers))


def undumpable() -> None:
    """Forbids core files, and attaching to this process by others of its uid."""
    if LINUX:
        prctl(prctl_arguments(_PR_SET_DUMPABLE, 0))


def scrub_environment() -> None:
    """Overwrites the environment block and empties its copies, so that no child can read the hash seed back."""
    posix = sys.modules["posix"]
    if LINUX:
        block = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")
        index = 0
        while block and block[index]:
            address = block[index]
            ctypes.memset(address, 0, len(ctypes.string_at(address)))
            index += 1
        libc.clearenv()
    # `os.environ.clear()` would call `unsetenv` on a block that is gone.
    os.environ._data.clear()  # type: ignore[attr-defined]
    posix.environ.clear()  # type: ignore[attr-defined]


def drop_root(uid: int) -> bool:
    """Becomes `uid` if root. Returns whether the process is unprivileged afterwards."""
    if os.geteuid() != 0:
        return True
    # A user namespace may know few uids, but nobody is usually one of them.
    for candidate in (uid, _NOBODY):
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(candidate, candidate, candidate)
            os.setresuid(candidate, candidate, candidate)
            return True
    return False


def drop_capabilities() -> None:
    """Empties every capability set, also for a root that could not change its uid, and forbids to gain any by exec."""
    if not CALLS:
        return
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    system_call("capset", header, bytes(24))
    prctl(prctl_arguments(_PR_SET_NO_NEW_PRIVS, 1))


def deny_files_and_network() -> str:
    """Enters a Landlock domain without a single rule: no opening, binding, connecting. Returns "" or why it failed."""
    if not CALLS:
        return "no Landlock on this system"
    try:
        version = system_call("landlock_create_ruleset", None, ctypes.c_size_t(0), _LANDLOCK_VERSION)
        rights = _landlock_rights(version)
        rules = system_call("landlock_create_ruleset", rights, ctypes.c_size_t(len(rights)), 0)
        try:
            system_call("landlock_restrict_self", rules, 0)
        finally:
            os.close(rules)
    except OSError as error:
        return str(error)
    # A kernel that was built with Landlock may still not enforce it.
    try:
        os.close(os.open("/", os.O_RDONLY))
    except PermissionError:
        return ""
    return "it is there but did not stop an open"


def _landlock_rights(version: int) -> bytes:
    """All rights that this version can take away: files, TCP ports, signals and abstract sockets."""
    # landlock_ruleset_attr of linux/landlock.h: version 2 added REFER, 3 TRUNCATE and 5 IOCTL_DEV to the rights on
    # files, 4 the ports and 6 the scopes.
    bits = 13 + (version >= 2) + (version >= 3) + (version >= 5)
    fields = [(1 << bits) - 1]
    if version >= 4:
        fields.append(0b11)
    if version >= 6:
        fields.append(0b11)
    return struct.pack(f"={len(fields)}Q", *fields)


def address_space() -> int:
    """Bytes of address space in use now (0 where the system does not say)."""
    if not LINUX:
        return 0
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


_NOTHING = (0, 0)


def limit_for_good() -> None:
    """Sets the rlimits that the zygote itself can live with; its children inherit them."""
    for name in ("FSIZE", "CORE", "MEMLOCK", "MSGQUEUE"):
        if hasattr(resource, f"RLIMIT_{name}"):
            setrlimit(getattr(resource, f"RLIMIT_{name}"), _NOTHING)
    lower(resource.RLIMIT_STACK, 8 << 20)


def limit_resources(address_bytes: int, cpu_us: int) -> None:
    """Sets the other rlimits of one child. CPU seconds are whole here, so they only stand behind `arm_cpu_timer`."""
    setrlimit(RLIMIT_NOFILE, _NOTHING)
    setrlimit(RLIMIT_NPROC, _NOTHING)
    seconds = cpu_us // 1_000_000 + 2
    lower(RLIMIT_CPU, seconds)
    # Elsewhere it is refused or means nothing.
    if LINUX:
        lower(RLIMIT_AS, address_bytes)


def lower(kind: int, value: int) -> None:
    """Sets both limits to `value`, or to the hard limit where that is already lower."""
    hard = getrlimit(kind)[1]
    value = value if hard == RLIM_INFINITY else min(value, hard)
    setrlimit(kind, (value, value))


# For `timer_create` and `timer_settime`: the timer's id, a struct sigevent that sends SIGKILL, a struct itimerspec.
_timer = ctypes.c_int()
_event = ctypes.create_string_buffer(struct.pack("=Qii", 0, signal.SIGKILL, 0), _SIGEVENT_BYTES)
_setting = (ctypes.c_int64 * 4)()
_CREATE = (_CLOCK_PROCESS_CPUTIME_ID, _event, ctypes.byref(_timer))


def arm_cpu_timer(cpu_us: int) -> None:
    """Has this process killed after so much CPU time, however it treats its signals."""
    if not CALLS:
        return
    cpu_us = max(1, cpu_us)
    # A struct itimerspec: the first two fields, the interval, stay 0, since the timer fires once.
    _setting[2] = cpu_us // 1_000_000
    _setting[3] = cpu_us % 1_000_000 * 1_000
    system_call("timer_create", *_CREATE)
    system_call("timer_settime", _timer, 0, _setting, None)
