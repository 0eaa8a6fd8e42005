"""torch's allocator of GPU memory, simulated: what a run keeps, cuts up and cannot put together again.

After `c10/cuda/CUDACachingAllocator.cpp`: a tensor takes the smallest free block of its stream that is large enough;
what is left of the block stays free; free neighbours are joined; when memory is short, whole free segments are given
back. Tensors below a megabyte, which have segments of their own, are left out. Sizes are rounded up to 2 MiB.
"""

from __future__ import annotations

from dataclasses import dataclass

_UNIT = 2 << 20
# Tensors of less than this share segments of this size.
_SHARED = 10 << 20
_SEGMENT = 20 << 20


class OutOfMemoryError(Exception):
    """There is no room for a tensor."""


@dataclass(eq=False, slots=True)
class Block:
    """A piece of a segment."""

    size: int
    used: bool = False
    mapped: bool = True
    """Whether there is memory behind its addresses."""


@dataclass(eq=False, slots=True)
class Segment:
    """Memory that was taken from the GPU in one piece, or, if it is expandable, addresses that memory can be put to."""

    stream: str
    blocks: list[Block]
    expandable: bool


class CachingAllocator:
    """The memory of one GPU as one process sees it."""

    def __init__(self, capacity: int, *, expandable: bool = False) -> None:
        self.capacity = capacity
        self.expandable = expandable
        self.segments: list[Segment] = []
        self.reserved = 0
        """The bytes that are taken from the GPU."""
        self._tensors: dict[str, Block] = {}

    @property
    def allocated(self) -> int:
        """The bytes that tensors have."""
        return sum(block.size for block in self._tensors.values())

    def allocate(self, name: str, size: float, stream: str = "main") -> None:
        """Makes a tensor. Raises OutOfMemoryError if there is no room, also after free segments were given back."""
        assert name not in self._tensors, name
        needed = -(-int(size) // _UNIT) * _UNIT
        block = self._free_block(needed, stream) or self._new(needed, stream)
        if block is None:
            self.empty_cache()
            block = self._new(needed, stream)
        if block is None:
            raise OutOfMemoryError(
                f"{name} of {needed / 1e9:.1f} GB: {self.allocated / 1e9:.1f} GB are allocated and "
                f"{self.reserved / 1e9:.1f} reserved of {self.capacity / 1e9:.1f}"
            )
        block.used = True
        self._tensors[name] = block

    def free(self, *names: str) -> None:
        """Ends tensors. Their memory stays reserved."""
        freed = {self._tensors.pop(name) for name in names}
        for block in freed:
            block.used = False
        for segment in self.segments:
            if not freed.isdisjoint(segment.blocks):
                segment.blocks = _joined(segment.blocks)

    def empty_cache(self) -> None:
        """Gives back segments in which nothing is used, and of expandable ones all that is free."""
        kept: list[Segment] = []
        for segment in self.segments:
            if not segment.expandable and any(block.used for block in segment.blocks):
                kept.append(segment)
                continue
            for block in segment.blocks:
                if block.mapped and not block.used:
                    block.mapped = False
                    self.reserved -= block.size
            segment.blocks = _joined(segment.blocks)
            if segment.expandable:
                kept.append(segment)
        self.segments = kept

    def _free_block(self, size: int, stream: str) -> Block | None:
        """Returns a free block of this size, cut from the smallest that is large enough; None if there is none."""
        best: tuple[Segment, Block] | None = None
        for segment in self.segments:
            if segment.stream != stream:
                continue
            for block in segment.blocks:
                fits = block.size >= size and block.mapped and not block.used
                if fits and (best is None or block.size < best[1].size):
                    best = segment, block
        return _cut(*best, size) if best else None

    def _new(self, size: int, stream: str) -> Block | None:
        """Returns a block of memory that is taken from the GPU; None if the GPU has too little left."""
        if self.expandable:
            return self._grown(size, stream)
        taken = _SEGMENT if size < _SHARED else size
        if self.reserved + taken > self.capacity:
            return None
        self.reserved += taken
        block = Block(taken)
        segment = Segment(stream, [block], expandable=False)
        self.segments.append(segment)
        return _cut(segment, block, size)

    def _grown(self, size: int, stream: str) -> Block | None:
        """Returns a block of an expandable segment, in the first gap that is large enough, partly mapped or not."""
        mine = [segment for segment in self.segments if segment.stream == stream]
        if not mine:
            mine = [Segment(stream, [Block(self.capacity * 9 // 8, mapped=False)], expandable=True)]
            self.segments += mine
        (segment,) = mine
        for first, block in enumerate(segment.blocks):
            last = first
            room = 0
            while last < len(segment.blocks) and not segment.blocks[last].used and room < size:
                room += segment.blocks[last].size
                last += 1
            if block.used or room < size:
                continue
            gap = segment.blocks[first:last]
            missing = sum(part.size for part in gap if not part.mapped) - (room - size) * (not gap[-1].mapped)
            if self.reserved + missing > self.capacity:
                return None
            self.reserved += missing
            rest = Block(room - size, mapped=gap[-1].mapped)
            grown = Block(size)
            segment.blocks[first:last] = [grown, rest] if rest.size else [grown]
            return grown
        return None


def _cut(segment: Segment, block: Block, size: int) -> Block:
    """Makes a free block as small as this; what is left of it is another one."""
    rest = Block(block.size - size)
    block.size = size
    if rest.size:
        segment.blocks.insert(segment.blocks.index(block) + 1, rest)
    return block


def _joined(blocks: list[Block]) -> list[Block]:
    """Returns the blocks, with neighbours joined that are free and alike."""
    joined: list[Block] = []
    for block in blocks:
        if joined and not joined[-1].used and not block.used and joined[-1].mapped == block.mapped:
            joined[-1].size += block.size
        else:
            joined.append(block)
    return joined
