"""Turns clocks that need no system call into system calls, so that the seccomp filter sees them.

The kernel maps a small library (the vDSO) into every process, and pages with the time beside it; `time.time()` runs in
there, past the filter. This module overwrites the library's entry points with plain system calls, which the filter then
refuses, and unmaps the pages. Only x86-64 is known, and a kernel may seal the mapping. Then clocks stay readable by
introspection, the probe `clocks` says so, and only the determinism check is left against them. Child-side, standard
library only.
"""

from __future__ import annotations

import ctypes
import os
import struct

import lockdown

_AT_SYSINFO_EHDR = 33
# From elf.h: kinds of program headers and of dynamic entries, and a symbol table's entry.
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_STRTAB, _DT_SYMTAB = 5, 6
# int3
_TRAP = b"\xcc"
_SYMBOL = struct.Struct("<IBBHQQ")

_CLOCKS = {
    "clock_gettime": 228,
    "gettimeofday": 96,
    "time": 201,
    "clock_getres": 229,
    "getcpu": 309,
    "getrandom": 318,
}


def redirect_clocks() -> str:
    """Patches the vDSO of this process and its future children, and unmaps the time. Returns "" when done, else why."""
    if not (lockdown.LINUX and lockdown.MACHINE == "x86_64"):
        return "only known for Linux on x86-64"
    lockdown.libc.getauxval.restype = ctypes.c_ulong
    base = int(lockdown.libc.getauxval(ctypes.c_ulong(_AT_SYSINFO_EHDR)))
    if not base:
        return "no vDSO"
    entries, end = _entry_points(base)
    if not entries:
        return "no known entry point"
    first = min(entries)
    try:
        # Through /proc/self/mem and not mprotect: newer kernels seal the mapping against changes of its protection.
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            # The bodies behind the entries read the counter and the pages by themselves: a jump into them has to die.
            memory.seek(first)
            memory.write(_TRAP * (end - first))
            for address, number in entries.items():
                memory.seek(address)
                # mov eax, number; syscall; ret
                memory.write(b"\xb8" + struct.pack("<I", number) + b"\x0f\x05\xc3")
    except OSError as error:
        return f"the vDSO cannot be written: {error}"
    return _unmap_time()


def _unmap_time() -> str:
    """Unmaps the pages with the time. Returns "" when none is left, else why not."""
    for start, end in _time_pages():
        if lockdown.libc.munmap(ctypes.c_void_p(start), ctypes.c_size_t(end - start)) != 0:
            return f"the pages with the time stay: {os.strerror(ctypes.get_errno())}"
    return "the pages with the time stay" if _time_pages() else ""


def _time_pages() -> list[tuple[int, int]]:
    """Where the kernel has mapped its time: `[vvar]`, and on newer kernels `[vvar_vclock]`."""
    pages: list[tuple[int, int]] = []
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            addresses, _, rest = line.partition(" ")
            if rest.split()[-1].startswith("[vvar"):
                start, _, end = addresses.partition("-")
                pages.append((int(start, 16), int(end, 16)))
    return pages


def _entry_points(base: int) -> tuple[dict[int, int], int]:
    """Address of each clock function and its system call, and the end of the code; none if it looks unfamiliar."""
    # The ELF header says where the program headers are; those say where code and dynamic section are.
    program_headers = _word("<Q", base + 32)
    size, count = struct.unpack("<HH", ctypes.string_at(base + 54, 4))
    load = dynamic = None
    for index in range(count):
        at = base + program_headers + index * size
        kind = _word("<I", at)
        if kind == _PT_LOAD and load is None:
            load = (_word("<Q", at + 16), _word("<Q", at + 40))
        elif kind == _PT_DYNAMIC:
            dynamic = _word("<Q", at + 16)
    if load is None or dynamic is None:
        return {}, base
    shift = base - load[0]
    length = load[1]
    tables: dict[int, int] = {}
    at = shift + dynamic
    while tag := _word("<Q", at):
        tables[tag] = shift + _word("<Q", at + 8)
        at += 16
    symbols = tables.get(_DT_SYMTAB, 0)
    names = tables.get(_DT_STRTAB, 0)
    entries: dict[int, int] = {}
    # The string table follows the symbol table: that is how linkers lay out a vDSO, and its only sure size.
    for at in range(symbols, min(names, base + length), _SYMBOL.size):
        name, _, _, section, value, size = _SYMBOL.unpack(ctypes.string_at(at, _SYMBOL.size))
        number = _CLOCKS.get(ctypes.string_at(names + name).decode("latin-1").removeprefix("__vdso_"))
        if number is not None and section:
            if size < 8 or not 0 <= value < length:
                return {}, base
            entries[shift + value] = number
    return entries, shift + length


def _word(form: str, address: int) -> int:
    return int(struct.unpack(form, ctypes.string_at(address, struct.calcsize(form)))[0])
