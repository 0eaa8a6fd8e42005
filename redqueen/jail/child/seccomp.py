"""The last thing that a child gives up: a seccomp filter lets about ten system calls through.

A program is assumed to make native calls (introspection reaches modules that it may not import), so this filter and
not Python decides what it can do. A refused call fails with EPERM and does not kill, because an interpreter that asks
for entropy or the time in passing should carry on. Child-side, standard library only.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

import lockdown
from lockdown import prctl

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_ALLOWED = {
    # exit, exit_group, rt_sigreturn, brk, munmap, mremap
    "x86_64": (60, 231, 15, 12, 11, 25),
    "aarch64": (93, 94, 139, 214, 215, 216),
}
# Allowed for some arguments only: `write` to the result pipe, memory without PROT_EXEC, advice that gives memory back
# (other advice tells of the machine's memory, or changes it), waking (never waiting on) a futex. A program that can
# wait could outlast its CPU limit, so nothing here blocks.
_CHECKED = {
    "x86_64": {"write": 1, "mmap": 9, "mprotect": 10, "madvise": 28, "futex": 202},
    "aarch64": {"write": 64, "mmap": 222, "mprotect": 226, "madvise": 233, "futex": 98},
}

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_KILL_PROCESS = 0x8000_0000
_ERRNO_EPERM = 0x0005_0001
_ALLOW = 0x7FFF_0000
_X32_BIT = 0x4000_0000
_PROT_EXEC = 4
_MADV_DONTNEED = 4
_MADV_FREE = 8
_FUTEX_COMMAND = 0x7F
_FUTEX_WAKE = 1

# Operations of classic BPF: load a word, jump if equal / greater or equal / any bit set, mask, return.
_LOAD = 0x20
_JEQ = 0x15
_JGE = 0x35
_JSET = 0x45
_AND = 0x54
_RETURN = 0x06

# Where the kernel puts what a filter may look at: `struct seccomp_data` of linux/seccomp.h.
_NUMBER = 0
_ARCH = 4
_ARGUMENTS = 16

Instruction = tuple[int, int, int, int]
"""Operation, instructions to skip if true, instructions to skip if false, operand."""


def supported() -> bool:
    """Whether this file knows the numbers of this machine's system calls."""
    return lockdown.LINUX and lockdown.MACHINE in ARCHITECTURES and sys.byteorder == "little" and sys.maxsize > 2**32


def filter_program(machine: str, result: int) -> bytes:
    """The filter's bytes, for children that write their answer to descriptor `result`."""
    allowed, checked = _ALLOWED[machine], _CHECKED[machine]
    # System calls of another architecture have other numbers, so they kill.
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_JEQ, 1, 0, ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        code += [(_JGE, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL_PROCESS)]
    # The kernel tries every number once when it installs a filter: those above ours are refused at once.
    last = max(*allowed, *checked.values())
    code += [(_JGE, 0, 1, last + 1), (_RETURN, 0, 0, _ERRNO_EPERM)]
    for number in allowed:
        code += [(_JEQ, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    code += _when(checked["write"], _equal(0, result))
    for name in ("mmap", "mprotect"):
        code += _when(checked[name], [(_LOAD, 0, 0, _low(2)), (_JSET, 1, 0, _PROT_EXEC)])
    give_back: list[Instruction] = [
        (_LOAD, 0, 0, _low(2)),
        (_JEQ, 1, 0, _MADV_DONTNEED),
        (_JEQ, 0, 1, _MADV_FREE),
    ]
    code += _when(checked["madvise"], give_back)
    wake: list[Instruction] = [
        (_LOAD, 0, 0, _low(1)),
        (_AND, 0, 0, _FUTEX_COMMAND),
        (_JEQ, 0, 1, _FUTEX_WAKE),
    ]
    code += _when(checked["futex"], wake)
    code.append((_RETURN, 0, 0, _ERRNO_EPERM))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _when(number: int, test: list[Instruction]) -> list[Instruction]:
    """For call `number`: allowed when `test` falls through, refused when it jumps one instruction."""
    verdict: list[Instruction] = [*test, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO_EPERM)]
    return [(_JEQ, 0, len(verdict), number), *verdict]


def _equal(argument: int, value: int) -> list[Instruction]:
    # Only the low word: the kernel itself reads a descriptor as 32 bits.
    return [(_LOAD, 0, 0, _low(argument)), (_JEQ, 0, 1, value)]


def _low(argument: int) -> int:
    return _ARGUMENTS + 8 * argument


class Filter:
    """A filter's bytes in memory that the kernel reads. It is made before the fork: objects made later cost pages."""

    def __init__(self, program: bytes) -> None:
        self._code = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("@HP", len(program) // 8, ctypes.addressof(self._code))
        self._header = ctypes.create_string_buffer(header, len(header))
        self.arguments = lockdown.prctl_arguments(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(self._header))


def install(wall: Filter) -> None:
    """Puts this process under the filter for good. Raises OSError if no_new_privs is not set or the kernel refuses."""
    prctl(wall.arguments)


def works(wall: Filter) -> bool:
    """Whether the filter refuses a system call, tried in a child."""
    pid = os.fork()
    if pid == 0:
        try:
            install(wall)
        except OSError:
            os._exit(1)
        try:
            os.pipe()
        except PermissionError:
            os._exit(0)
        os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
