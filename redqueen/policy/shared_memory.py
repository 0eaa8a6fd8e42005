"""Tensors in memory that this process shares with its children."""

from __future__ import annotations

import math
import os

import torch
from torch import Tensor

_ALIGNMENT = 64


class Block:
    """Zeroed memory without a name in any file system; it is gone when the last process that maps it is gone (Linux).

    Tensors are taken one after the other: a process that attaches to `path` and takes the same ones in the same order
    has the same tensors.
    """

    def __init__(self, size: int, path: str | None = None) -> None:
        self.size, self.used = size, 0
        if path is None:
            self._descriptor = os.memfd_create("redqueen")
            os.ftruncate(self._descriptor, size)
            path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        self.path = path
        self._bytes = torch.from_file(path, shared=True, size=size, dtype=torch.uint8)

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The next tensor. Raises MemoryError past the end."""
        start, size = self.used, math.prod(shape) * dtype.itemsize
        if start + size > self.size:
            raise MemoryError(f"{self.size} shared bytes, {start + size} wanted")
        self.used = start + padded(size)
        return self._bytes[start : start + size].view(dtype).view(shape)

    def keep(self, tensor: Tensor) -> Tensor:
        """A copy of `tensor` in this block."""
        return self.take(tuple(tensor.shape), tensor.dtype).copy_(tensor)

    def offset(self, tensor: Tensor) -> int | None:
        """Where `tensor` begins in this block, in bytes; None if it is elsewhere."""
        offset = tensor.data_ptr() - self._bytes.data_ptr()
        return offset if 0 <= offset < self.size else None

    def view(self, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The tensor that begins there."""
        length = 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True)) if math.prod(shape) else 0
        flat = self._bytes[offset : offset + length * dtype.itemsize].view(dtype)
        return flat.as_strided(shape, stride)


def padded(size: int) -> int:
    """The bytes that a tensor of `size` bytes takes in a block."""
    return size + -size % _ALIGNMENT
