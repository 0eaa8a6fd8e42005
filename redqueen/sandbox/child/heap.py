"""Where new objects lie in memory, shuffled, so that no result can depend on it unseen.

Child-side, standard library only.
"""

from __future__ import annotations

import random
from collections.abc import Callable

_POOL, _POOL_HEADER, _BYTES_HEADER = 16_384, 48, 33  # of CPython's small-object allocator


def shuffle() -> list[object]:
    """Shuffle the allocator's free blocks, so that the order of addresses differs between A and B.

    Address randomisation alone moves whole pages: fresh objects would lie in the same order in every interpreter.
    The caller keeps the result, or the gaps between the shuffled blocks would close again.
    """
    order = random.Random(hash("order"))
    kept: list[object] = []
    # Kinds with free lists of their own, then one kind for every size class of the allocator.
    listed = [_half, _list, _dict, *map(_tuples, range(1, 20))]
    sized = [_object, complex, *map(_texts, range(15, 512 - _BYTES_HEADER, 16))]
    for make in listed + sized:
        crumbs = [make(i) for i in range(300)]
        # On to the first block of a fresh pool, or the rest of the last one would be handed out in plain order.
        while make in sized and id(crumbs[-1]) % _POOL != _POOL_HEADER and len(crumbs) < 3_000:
            crumbs.append(make(0))
        crumbs.pop()
        order.shuffle(crumbs)
        kept += crumbs[200:]
        while crumbs:
            crumbs.pop()
    return kept


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
