"""Changes what a build of Python decides: where types, built-in functions and the like are, and so their hashes.

A linker put them there. Hashes of types and their order in a set are the same in every interpreter of one build, but no
reader of a program could know them. So the interpreters that check a program which may show hashes give such objects
other ones, and `id` other numbers; what depends on them is then refused as not deterministic. Only x86-64 is known.
Child-side, standard library only.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import random
import struct
from collections.abc import Callable
from typing import Any

import lockdown

# Where a type has its hash function (PyTypeObject of the C API).
_HASH = 15 * 8
_BITS = 44
_FIRST = 2
_STEP = 16
"""Addresses of objects are multiples of it."""


_PLACED = (type, type(None), type(...), type(NotImplemented), type(len), type(str.upper), type(str.__add__))
"""Types of the objects that a build places. The hash of None has another source since Python 3.12."""

_PLAIN = (str, bytes, int, float)
"""Keys whose hashes stay."""


def move(variant: int) -> None:
    """Gives what the build placed other hashes, which differ from variant to variant. Raises OSError."""
    if not (lockdown.LINUX and lockdown.MACHINE == "x86_64"):
        return
    everything = gc.get_objects()
    # What has such keys is filled again: else nothing would be found in it.
    tables: list[tuple[Any, list[Any]]] = []
    for value in everything:
        if type(value) in (dict, set) and not all(type(key) in _PLAIN for key in value):
            tables.append((value, list(value.items() if type(value) is dict else value)))
    metaclasses = [value for value in everything if isinstance(value, type) and issubclass(value, type)]
    # All bits turned around: that reverses the order of most sets. Then, any of them.
    bits = (1 << _BITS) - 1 if variant == _FIRST else random.Random(variant).getrandbits(_BITS)
    codes: dict[int, int] = {}
    for kind in dict.fromkeys((*_PLACED, *metaclasses)):
        slot = ctypes.c_uint64.from_address(id(kind) + _HASH)
        if slot.value not in codes:
            codes[slot.value] = lockdown.machine_code(_wrapper(slot.value, bits))
        slot.value = codes[slot.value]
    for table, items in tables:
        table.clear()
        table.update(items)


def _wrapper(former: int, bits: int) -> bytes:
    """Machine code of a hash function: the former one, with some bits turned around."""
    return bytes.fromhex(
        f"4883ec08 48b8{struct.pack('<Q', former).hex()} ffd0"  # sub rsp, 8; mov rax, former; call rax
        f"48b9{struct.pack('<Q', bits).hex()} 4831c8"  # mov rcx, bits; xor rax, rcx
        "4883f8ff 7503 48ffc8"  # cmp rax, -1; jne over; dec rax, since -1 would be an error
        "4883c408 c3"  # over: add rsp, 8; ret
    )


def other_id(variant: int) -> Callable[[object], int]:
    """Returns what programs get for `id`: other numbers, which are equal where those of `id` are."""
    real = builtins.id

    def id(each: object, /) -> int:
        return real(each) + variant * _STEP

    return id
