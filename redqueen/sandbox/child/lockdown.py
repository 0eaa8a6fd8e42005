"""System calls through ctypes: what the zygote and its children give up for good.

Child-side, standard library only. Every function is called while files can still be opened; ctypes is
imported here, before the doors close.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from os import getppid
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
_fork: Any = ctypes.PyDLL(None, use_errno=True).fork  # PyDLL keeps the interpreter's lock: the child starts with it


_syscall: Any = libc.syscall if LINUX else None
_NUMBER_OF = {name: ctypes.c_long(number) for name, number in CALLS.items()}


def system_call(name: str, *arguments: Any) -> int:
    """A raw system call by name; raises OSError with the call's name."""
    result = _syscall(_NUMBER_OF[name], *arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(result)


def prctl_arguments(option: int, *arguments: int) -> tuple[Any, ...]:
    """The five arguments of `prctl`, all but the first as longs."""
    return (option, *(ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]))


def prctl(arguments: tuple[Any, ...]) -> None:
    """`prctl` with what `prctl_arguments` made; raises OSError."""
    if _prctl(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {arguments[0]}: {os.strerror(number)}")


def fork() -> int:
    """`os.fork` without Python's work after it, which is for programs with threads and touches seventy pages.

    The zygote has one thread and no child starts a second one. Raises OSError.
    """
    if not LINUX:
        return os.fork()
    pid = int(_fork())
    if pid < 0:
        raise OSError(ctypes.get_errno(), "fork")
    return pid


# Made before the fork, like all that follows here and ends in a call: every object made in a child costs it pages.
_prctl: Any = libc.prctl if LINUX else None
_DEATH_SIGNAL = prctl_arguments(_PR_SET_PDEATHSIG, signal.SIGKILL)


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process when the thread that started it ends; at once if it has ended already."""
    if LINUX:
        prctl(_DEATH_SIGNAL)
    if getppid() != parent:
        os._exit(1)


def undumpable() -> None:
    """No core files, and no attaching to this process by others of its uid."""
    if LINUX:
        prctl(prctl_arguments(_PR_SET_DUMPABLE, 0))


def scrub_environment() -> None:
    """Overwrite the environment block and empty its copies: no child must read the hash seed back."""
    posix = sys.modules["posix"]
    if LINUX:
        block = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")
        index = 0
        while block and block[index]:
            address = block[index]
            ctypes.memset(address, 0, len(ctypes.string_at(address)))
            index += 1
        libc.clearenv()
    os.environ._data.clear()  # type: ignore[attr-defined]  # without unsetenv: the block is gone already
    posix.environ.clear()  # type: ignore[attr-defined]


def drop_root(uid: int) -> bool:
    """Become `uid` if root; True when the process is unprivileged afterwards."""
    if os.geteuid() != 0:
        return True
    for candidate in (uid, _NOBODY):  # a user namespace may know few uids
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(candidate, candidate, candidate)
            os.setresuid(candidate, candidate, candidate)
            return True
    return False


def drop_capabilities() -> None:
    """Empty every capability set, also for a root that could not change its uid; gain none by exec."""
    if not CALLS:
        return
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    system_call("capset", header, bytes(24))
    prctl(prctl_arguments(_PR_SET_NO_NEW_PRIVS, 1))


def deny_files_and_network() -> str:
    """Landlock without a single rule: no opening, binding, connecting. Empty when done, else why not."""
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
    try:
        os.close(os.open("/", os.O_RDONLY))
    except PermissionError:
        return ""
    return "it is there but did not stop an open"


def _landlock_rights(version: int) -> bytes:
    """All rights that this version can take away: files, TCP ports, signals and abstract sockets."""
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
    """The rlimits that the zygote itself can live with; its children inherit them."""
    for name in ("FSIZE", "CORE", "MEMLOCK", "MSGQUEUE"):
        if hasattr(resource, f"RLIMIT_{name}"):
            setrlimit(getattr(resource, f"RLIMIT_{name}"), _NOTHING)
    lower(resource.RLIMIT_STACK, 8 << 20)


def limit_resources(address_bytes: int, cpu_us: int) -> None:
    """The other rlimits of one child. CPU seconds are whole numbers here: a backstop behind `arm_cpu_timer`."""
    setrlimit(RLIMIT_NOFILE, _NOTHING)
    setrlimit(RLIMIT_NPROC, _NOTHING)
    seconds = cpu_us // 1_000_000 + 2
    setrlimit(RLIMIT_CPU, (seconds, seconds))
    if LINUX:  # elsewhere it is refused or means nothing
        lower(RLIMIT_AS, address_bytes)


def lower(kind: int, value: int) -> None:
    """Set both limits to `value`, or to the hard limit where that is already lower."""
    hard = getrlimit(kind)[1]
    value = value if hard == RLIM_INFINITY else min(value, hard)
    setrlimit(kind, (value, value))


_timer = ctypes.c_int()
_event = ctypes.create_string_buffer(struct.pack("=Qii", 0, signal.SIGKILL, 0), _SIGEVENT_BYTES)
_setting = (ctypes.c_int64 * 4)()
_CREATE = (_CLOCK_PROCESS_CPUTIME_ID, _event, ctypes.byref(_timer))


def arm_cpu_timer(cpu_us: int) -> None:
    """SIGKILL after this much CPU time of the process, however it treats its signals."""
    if not CALLS:
        return
    cpu_us = max(1, cpu_us)
    _setting[2], _setting[3] = cpu_us // 1_000_000, cpu_us % 1_000_000 * 1_000
    system_call("timer_create", *_CREATE)
    system_call("timer_settime", _timer, 0, _setting, None)
