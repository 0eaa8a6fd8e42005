"""Shuffles where new objects lie in memory, so that a result that depends on it differs between interpreters.

Child-side, standard library only.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from lockdown import libc

# Sizes of CPython's small-object allocator, and of a bytes object without its content.
_PAGE = 4_096
_POOL = 16_384
_POOL_HEADER = 48
_BYTES_HEADER = 33
_SMALL = 512

_SHUFFLED = 120
_MOST_OBJECTS = 3_000

# Sizes of larger objects, which the C library's allocator serves: small steps first, then coarser ones.
_LARGE = (*range(_SMALL + 16, 1_536, 16), *range(1_536, 4_096, 128), *range(4_096, 32_768, 4_096), 40_000, 65_536)
_HOLES = 3
_SCATTERED = 80

_PADDING = (0, 11, 42, 21, 32, 53, 38)
"""Pools that each interpreter leaves out. Together they change every bit of a pool's number. The first two serve every
program and leave out the fewest, since a fork takes time for each page."""
_SEPARATOR_BYTES = 520


def shuffle(variant: int) -> list[object]:
    """Shuffles the allocators' free blocks, so that the order of addresses differs between the interpreters.

    Address randomisation alone moves whole pages: new objects would lie in the same order in every interpreter.
    Variants 0 and 1 are mirror images: of two objects of one kind, the first has the lower address in one of them only.
    The caller keeps the result; without it the gaps between the shuffled blocks would close again.
    """
    order = random.Random(variant // 2)
    mirrored = variant % 2 == 1
    # Later pools lie elsewhere within their arena, whose own place is random.
    padding: list[object] = [bytes(_SMALL - _BYTES_HEADER) for _ in range(_PADDING[variant] * (_POOL // _SMALL))]
    gaps = padding + _shuffle_large(order, mirrored) + _shuffle_small(order, mirrored)
    _give_back_pages()
    return gaps


def _shuffle_small(order: random.Random, mirrored: bool) -> list[object]:
    fillers: list[object] = []
    for make in _LISTED:
        objects = [make(i) for i in range(_SHUFFLED)]
        fillers += _free(objects, order, mirrored)
    for make in _SIZED:
        # What is left of the old pools is filled for good, so that all new objects lie in new ones.
        fillers += _to_next_pool(make, 0)
        # At most two pools: a fork takes time for each page.
        objects = _to_next_pool(make, min(_SHUFFLED, _POOL // sys.getsizeof(make(0)) + 1))
        fillers += _free(objects, order, mirrored)
    return fillers


def _to_next_pool(make: Callable[[int], object], least: int) -> list[object]:
    """Objects up to the end of a pool, at least so many."""
    objects: list[object] = []
    while len(objects) <= least or id(objects[-1]) % _POOL != _POOL_HEADER:
        objects.append(make(0))
        # Another Python may lay out its pools in another way.
        if len(objects) > _MOST_OBJECTS:
            break
    objects.pop()
    return objects


def _free(objects: list[object], order: random.Random, mirrored: bool) -> list[object]:
    """Frees two thirds of some objects in a random order. Returns the rest."""
    _arrange(objects, order, mirrored)
    rest = objects[2 * len(objects) // 3 :]
    del objects[2 * len(objects) // 3 :]
    # Freed one by one, the blocks are handed out again in that order, from the last.
    while objects:
        objects.pop()
    return rest


def _shuffle_large(order: random.Random, mirrored: bool) -> list[object]:
    """Leaves holes of every size in a random order, each between two objects that stay."""
    sizes = [size for size in _LARGE for _ in range(_HOLES)]
    order.shuffle(sizes)
    separators: list[object] = []
    holes: dict[int, list[object]] = {size: [] for size in _LARGE}
    for size in sizes:
        holes[size].append(bytes(size - _BYTES_HEADER))
        separators.append(bytes(_SEPARATOR_BYTES))
    for objects in holes.values():
        _arrange(objects, order, mirrored)
        while objects:
            objects.pop()
    # A large request has the C library sort the holes now, and not in each child.
    separators.append(bytes(1 << 17))
    return separators


def _give_back_pages() -> None:
    """Gives the inner pages of large holes back to the system, since a fork takes time for each page."""
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def scatter(variant: int) -> None:
    """Shuffles once more, in a child that is about to run a program which may show addresses.

    To compile a program frees large blocks, and what comes next would be cut from them in plain order.
    """
    order = random.Random(variant // 2)
    for size in _LARGE[:_SCATTERED]:
        objects: list[object] = [bytes(size - _BYTES_HEADER) for _ in range(_HOLES)]
        _arrange(objects, order, variant % 2 == 1)
        while objects:
            objects.pop()


def _arrange(objects: list[object], order: random.Random, mirrored: bool) -> None:
    """Brings objects into a random order of their addresses, page by page, or into its mirror image."""
    # Page by page, because each page that a child writes to is copied for it.
    pages: dict[int, list[object]] = {}
    for value in sorted(objects, key=id, reverse=mirrored):
        pages.setdefault(id(value) // _PAGE, []).append(value)
    objects.clear()
    groups = list(pages.values())
    order.shuffle(groups)
    for group in groups:
        random.Random(order.random()).shuffle(group)
        objects += group


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


# Kinds with free lists of their own, then one kind for every size class of the allocator.
_LISTED = (_half, _list, _dict, *map(_tuples, range(1, 20)))
_SIZED = (_object, complex, *map(_texts, range(15, _SMALL - _BYTES_HEADER + 1, 16)))
