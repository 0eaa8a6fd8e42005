"""System calls through ctypes: what the zygote and its children give up for good.

Child-side, standard library only. Every function is called while files can still be opened; ctypes is
imported here, before the doors close.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from typing import Any

LINUX = sys.platform.startswith("linux")
MACHINE = platform.machine()

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


def system_call(name: str, *arguments: Any) -> int:
    """A raw system call by name; raises OSError with the call's name."""
    result = libc.syscall(ctypes.c_long(CALLS[name]), *arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(result)


def prctl(option: int, *arguments: int) -> None:
    """`prctl` with all five arguments as longs; raises OSError."""
    padded = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    if libc.prctl(option, *padded) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process when the thread that started it ends; at once if it has ended already."""
    if LINUX:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def undumpable() -> None:
    """No core files, and no attaching to this process by others of its uid."""
    if LINUX:
        prctl(_PR_SET_DUMPABLE, 0)


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
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


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


_ZERO = ("FSIZE", "NOFILE", "NPROC", "CORE", "MEMLOCK", "MSGQUEUE")
_NOTHING_OF = [getattr(resource, f"RLIMIT_{name}") for name in _ZERO if hasattr(resource, f"RLIMIT_{name}")]


def limit_resources(address_bytes: int, cpu_s: float) -> None:
    """The rlimits of one child. CPU seconds are whole numbers here: a backstop behind `arm_cpu_timer`."""
    for kind in _NOTHING_OF:
        resource.setrlimit(kind, (0, 0))
    seconds = int(cpu_s) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    if LINUX:  # elsewhere it is refused or means nothing
        lower(resource.RLIMIT_AS, address_bytes)
    lower(resource.RLIMIT_STACK, 8 << 20)


def lower(kind: int, value: int) -> None:
    """Set both limits to `value`, or to the hard limit where that is already lower."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


# Made before the fork: every object made in a child costs it a page.
_timer = ctypes.c_int()
_event = ctypes.create_string_buffer(struct.pack("=Qii", 0, signal.SIGKILL, 0), _SIGEVENT_BYTES)
_setting = (ctypes.c_int64 * 4)()


def arm_cpu_timer(cpu_us: int) -> None:
    """SIGKILL after this much CPU time of the process, however it treats its signals."""
    if not CALLS:
        return
    cpu_us = max(1, cpu_us)
    _setting[2], _setting[3] = cpu_us // 1_000_000, cpu_us % 1_000_000 * 1_000
    system_call("timer_create", _CLOCK_PROCESS_CPUTIME_ID, _event, ctypes.byref(_timer))
    system_call("timer_settime", _timer, 0, _setting, None)
