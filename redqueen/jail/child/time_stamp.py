"""Takes the processor's time stamp counter away: `rdtsc` is an instruction, and no filter of system calls sees it.

Libraries have its bytes in places where nobody meant an instruction, and a program with ctypes can jump there. The
kernel can have the processor refuse it to a process and to its later children (prctl(2), PR_SET_TSC). Child-side,
standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal

import lockdown

_PR_SET_TSC = 26
_PR_TSC_SIGSEGV = 2
_READ_WRITE_EXECUTE = 7
_MAP_PRIVATE_ANONYMOUS = 0x22
_PAGE = 4096
# rdtsc; ret, and rdtscp; ret
_READS = (b"\x0f\x31\xc3", b"\x0f\x01\xf9\xc3")


def refuse_time_stamps() -> str:
    """Has the counter refused to this process and its future children. Returns "" when done, else why not."""
    if not (lockdown.LINUX and lockdown.MACHINE == "x86_64"):
        return "only known for Linux on x86-64"
    try:
        lockdown.prctl(lockdown.prctl_arguments(_PR_SET_TSC, _PR_TSC_SIGSEGV))
    except OSError as error:
        return f"the time stamp counter stays readable: {error}"
    readable = [code.hex() for code in _READS if not _dies(code)]
    return f"the time stamp counter stays readable: {', '.join(readable)}" if readable else ""


def _dies(code: bytes) -> bool:
    """Whether a child that runs these instructions is killed for it. It has to be able to map them."""
    pid = os.fork()
    if pid == 0:
        # What is raised here must not return into the parent's code.
        try:
            _run(code)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGSEGV


def _run(code: bytes) -> None:
    lockdown.libc.mmap.restype = ctypes.c_void_p
    size = ctypes.c_size_t(_PAGE)
    address = lockdown.libc.mmap(None, size, _READ_WRITE_EXECUTE, _MAP_PRIVATE_ANONYMOUS, -1, ctypes.c_long(0))
    if address in (None, ctypes.c_void_p(-1).value):
        return
    ctypes.memmove(address, code, len(code))
    ctypes.CFUNCTYPE(ctypes.c_long)(address)()
