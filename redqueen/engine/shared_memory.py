"""Tensors in memory that this process shares with its children."""

from __future__ import annotations

import math
import os

import torch
from torch import Tensor

# Each tensor begins at a cache line, so that two processes never write to one line for different tensors.
_ALIGNMENT = 64


class SharedBlock:
    """Zeroed memory that several processes map. It has no name in a file system, and Linux frees it with its last user.

    Allocation is deterministic: a process that attaches to `path` and makes the same `allocate` calls in the same order
    gets the same tensors.
    """

    def __init__(self, size: int, path: str | None = None) -> None:
        """Makes a block of `size` bytes, or attaches to the one at `path`."""
        self.size = size
        self.used = 0
        if path is None:
            # A file in /dev/shm would outlive a process that is killed, and its size is limited in containers. This one
            # lives in memory only; children open it through this process's entry in /proc.
            self._descriptor = os.memfd_create("redqueen")
            os.ftruncate(self._descriptor, size)
            path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        self.path = path
        self._bytes = torch.from_file(path, shared=True, size=size, dtype=torch.uint8)

    def __reduce__(self) -> tuple[type[SharedBlock], tuple[int, str]]:
        # Pickled, a block is where it is: the process that unpickles it attaches to it, and copies nothing.
        return SharedBlock, (self.size, self.path)

    def allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Returns the next tensor. Raises MemoryError if the block is too small for it."""
        start = self.used
        size = math.prod(shape) * dtype.itemsize
        if start + size > self.size:
            raise MemoryError(f"{self.size} shared bytes, {start + size} wanted")
        self.used = start + padded(size)
        return self._bytes[start : start + size].view(dtype).view(shape)

    def store(self, tensor: Tensor) -> Tensor:
        return self.allocate(tuple(tensor.shape), tensor.dtype).copy_(tensor)

    def offset(self, tensor: Tensor) -> int | None:
        """Returns where `tensor` begins in this block, in bytes; None if it is elsewhere."""
        # A parent describes a view of a weight by offset, shape and stride, and a child makes the same view of its own
        # mapping. Pickling the tensor itself would copy its memory.
        offset = tensor.data_ptr() - self._bytes.data_ptr()
        return offset if 0 <= offset < self.size else None

    def view(self, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Returns the tensor that begins at `offset`, which `offset` returned in another process."""
        # The view ends at its last element, which may lie far before the end of the block.
        length = 0
        if math.prod(shape):
            length = 1 + sum((count - 1) * step for count, step in zip(shape, stride, strict=True))
        flat = self._bytes[offset : offset + length * dtype.itemsize].view(dtype)
        return flat.as_strided(shape, stride)


def padded(size: int) -> int:
    """Returns how many bytes of a block a tensor of `size` bytes occupies."""
    return size + -size % _ALIGNMENT
