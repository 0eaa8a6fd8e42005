"""The filter is interpreted here, so that the numbers of a machine that we do not have are checked too."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import ModuleType

import pytest

ALLOWED = {
    "x86_64": {60, 231, 15, 12, 11, 25},
    "aarch64": {93, 94, 139, 214, 215, 216},
}


CHECKED = {"x86_64": (1, 9, 10, 28, 202), "aarch64": (64, 222, 226, 233, 98)}  # write, mmap, mprotect, madvise, futex


ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


KILL, EPERM, ALLOW = 0x8000_0000, 0x0005_0001, 0x7FFF_0000


def _verdict(code: bytes, arch: int, number: int, *arguments: int) -> int:
    """Classic BPF, the six instructions that the filter uses."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *(arguments + (0,) * 6)[:6])
    accumulator, at = 0, 0
    while True:
        operation, true, false, value = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x06:
            return value
        else:
            taken = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}
            at += true if taken[operation] else false


@pytest.fixture
def filters(child_module: Callable[[str], ModuleType]) -> dict[str, bytes]:
    seccomp = child_module("seccomp")
    return {machine: seccomp.filter_program(machine, 3) for machine in ARCH}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_lets_through_what_it_says_and_nothing_else(filters: dict[str, bytes], machine: str) -> None:
    code, arch = filters[machine], ARCH[machine]
    write, mmap, mprotect, madvise, futex = CHECKED[machine]
    passed = {number for number in range(1024) if _verdict(code, arch, number, 0, 1, 0) == ALLOW}
    assert passed == ALLOWED[machine] | {mmap, mprotect, futex}
    assert {_verdict(code, arch, number, 0, 1, 0) for number in range(1024)} == {ALLOW, EPERM}
    assert [_verdict(code, arch, write, fd) for fd in (0, 1, 2, 3, 4, 2**32 + 1)] == [EPERM] * 3 + [ALLOW] + [EPERM] * 2
    for call in (mmap, mprotect):
        assert [_verdict(code, arch, call, 0, 0, bits) for bits in (0, 1, 3, 4, 5, 7)] == [ALLOW] * 3 + [EPERM] * 3
    # Of all advice, MADV_DONTNEED and MADV_FREE; the kernel reads it as 32 bits.
    passed = {advice for advice in range(256) if _verdict(code, arch, madvise, 0, 4096, advice) == ALLOW}
    assert passed == {4, 8}
    operations = [(1, ALLOW), (129, ALLOW), (0, EPERM), (128, EPERM), (9, EPERM), (13, EPERM)]
    assert [_verdict(code, arch, futex, 0, op) for op, _ in operations] == [wanted for _, wanted in operations]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_kills_other_architectures(filters: dict[str, bytes], machine: str) -> None:
    for arch in (0x40000003, 0x40000028, *(other for name, other in ARCH.items() if name != machine)):
        assert _verdict(filters[machine], arch, 1, 3) == KILL
    if machine == "x86_64":
        assert _verdict(filters[machine], ARCH[machine], 0x40000001, 3) == KILL
