"""Shuffles where new objects lie in memory, so that a result that depends on it differs between interpreters.

Child-side, standard library only.
"""

from __future__ import annotations

import random
from collections.abc import Callable

# Sizes of CPython's small-object allocator, and of a bytes object without its content.
_POOL = 16_384
_POOL_HEADER = 48
_BYTES_HEADER = 33


def shuffle() -> list[object]:
    """Shuffles the allocator's free blocks, so that the order of addresses differs between A and B.

    Address randomisation alone moves whole pages: new objects would lie in the same order in every interpreter. The
    caller keeps the result; without it the gaps between the shuffled blocks would close again.
    """
    # The hash of a text differs between the interpreters and is the same each time in one of them.
    order = random.Random(hash("order"))
    fillers: list[object] = []
    # Kinds with free lists of their own, then one kind for every size class of the allocator.
    listed = [_half, _list, _dict, *map(_tuples, range(1, 20))]
    sized = [_object, complex, *map(_texts, range(15, 512 - _BYTES_HEADER, 16))]
    for make in listed + sized:
        objects = [make(i) for i in range(300)]
        # On to the first block of a new pool: the rest of the last one would be handed out in plain order.
        while make in sized and id(objects[-1]) % _POOL != _POOL_HEADER and len(objects) < 3_000:
            objects.append(make(0))
        objects.pop()
        # Freed one by one in a random order, the blocks are handed out again in that order, from the last.
        order.shuffle(objects)
        fillers += objects[200:]
        while objects:
            objects.pop()
    return fillers


def _half(number: int) -> float:
    return number + 0.5


def _list(number: int) -> list[int]:
    return [number]


def _dict(number: int) -> dict[int, int]:
    return {number: number}


def _object(_number: int) -> object:
    return object()


def _tuples(size: int) -> Callable[[int], object]:
    return lambda number: (number,) * size


def _texts(size: int) -> Callable[[int], object]:
    return lambda _number: bytes(size)
