"""Takes chance out of an interpreter: where its memory lies, and numbers that the kernel drew or counted.

A program may find any of them by introspection, and one bit is enough to toss a coin. The determinism check catches a
coin only when the interpreters disagree, so it is better that there is none. Child-side, standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

import lockdown

_RESTARTED = "again"

_NO_RANDOMISATION = 0x0040000
_QUERY = 0xFFFFFFFF
_AT_RANDOM, _AT_EXECFN = 25, 31
_RANDOM_BYTES = 16

# How far to look for a process id: into the C library's description of a thread, and into the interpreter's.
_THREAD_WORDS = 100
_STATE_WORDS = 64
_NUMBER = 1


def restart_without_randomisation() -> bool:
    """Starts this script again without address randomisation. Returns whether that is so already.

    All interpreters of this kind then have the same addresses, so that no result depends on which one a program met.
    Where the kernel refuses (a container's filter may) this one carries on as it is.
    """
    if not lockdown.LINUX:
        return False
    now = int(lockdown.libc.personality(ctypes.c_ulong(_QUERY)))
    if now >= 0 and now & _NO_RANDOMISATION:
        return True
    refused = now < 0 or lockdown.libc.personality(ctypes.c_ulong(now | _NO_RANDOMISATION)) < 0
    if not refused and sys.argv[-1] != _RESTARTED:
        with contextlib.suppress(OSError):
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:-1], _RESTARTED])
    return False


def forget_start() -> None:
    """Overwrites what the kernel and the interpreter keep of the start: command line, environment, random bytes."""
    if not lockdown.LINUX:
        return
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    # Fields 48 to 51 of proc(5): arg_start, arg_end, env_start, env_end; the first here is field 3. The C library may
    # have copied an environment variable, so that `environ` no longer leads to the original.
    for start, end in (map(int, fields[45:47]), map(int, fields[47:49])):
        if start < end:
            ctypes.memset(start, 0, end - start)
    name = _auxiliary(_AT_EXECFN)
    if name:
        ctypes.memset(name, 0, len(ctypes.string_at(name)))
    seed = _auxiliary(_AT_RANDOM)
    if seed:
        ctypes.memset(seed, 0, _RANDOM_BYTES)
    count = ctypes.c_int()
    texts = ctypes.POINTER(ctypes.c_void_p)()
    ctypes.pythonapi.Py_GetArgcArgv(ctypes.byref(count), ctypes.byref(texts))
    for index in range(count.value):
        address = texts[index]
        ctypes.memset(address, 0, ctypes.sizeof(ctypes.c_wchar) * len(ctypes.wstring_at(address)))
    sys.argv[:] = [""]
    sys.orig_argv[:] = []


def process_numbers() -> list[ctypes.c_int]:
    """Where the C library keeps this process's id. The kernel writes a child's there, and the child overwrites it."""
    if not lockdown.LINUX:
        return []
    pid = os.getpid()
    lockdown.libc.pthread_self.restype = ctypes.c_ulong
    thread = int(lockdown.libc.pthread_self())
    state = ctypes.pythonapi.PyThreadState_Get
    state.restype = ctypes.c_ulong
    # The interpreter's copy only serves debuggers, so that it can go for good. It follows the thread's address; any
    # other field may have the same value by accident.
    fields = (ctypes.c_ulong * _STATE_WORDS).from_address(state())
    for index in range(1, _STATE_WORDS):
        if fields[index - 1] == thread and fields[index] == pid:
            fields[index] = _NUMBER
    # Every other half word, since these are pointers too: the upper half of 0x7fff_f7d8_a740 is the process id 32767,
    # and a lower half is seldom as small as a process id.
    words = (ctypes.c_int.from_address(thread + 8 * index) for index in range(_THREAD_WORDS))
    return [word for word in words if word.value == pid]


def forget_numbers(numbers: list[ctypes.c_int]) -> None:
    """Overwrites a child's own process id."""
    # Not 0, which would mean that no thread holds a lock.
    for number in numbers:
        number.value = _NUMBER


def _auxiliary(kind: int) -> int:
    lockdown.libc.getauxval.restype = ctypes.c_ulong
    return int(lockdown.libc.getauxval(ctypes.c_ulong(kind)))
