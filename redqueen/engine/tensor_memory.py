"""The memory of tensors: what processes share, copies between host and device, and what torch keeps of a GPU's."""

from __future__ import annotations

import math
import os

import torch
from torch import Tensor

# Memory that this process shares with its children.

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


# Copies between host and device that do not make the host wait, and memory that torch keeps on a GPU.


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a CPU tensor's copy on the device; on a CPU the tensor itself."""
    # A copy from ordinary memory waits until the device has done all of its work. From pinned memory it is queued
    # behind that work, and torch keeps the memory until it has been read.
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


class HostCopy:
    """A copy on the host of what a tensor holds when the work that is queued now is done."""

    def __init__(self, tensor: Tensor) -> None:
        self._done: torch.cuda.Event | None = None
        if tensor.device.type == "cuda":
            self._copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._copy.copy_(tensor, non_blocking=True)
            # A host that waits sleeps, because programs are verified on the other cores meanwhile.
            self._done = torch.cuda.Event(blocking=True)
            self._done.record()
        else:
            self._copy = tensor.clone()

    def wait(self) -> Tensor:
        """Returns the copy as soon as it is complete."""
        if self._done is not None:
            self._done.synchronize()
        return self._copy


def release_unused(device: torch.device) -> None:
    """Gives the memory of freed tensors back to the GPU; does nothing on other devices."""
    # torch keeps the memory of a freed tensor, and cuts it up for smaller ones. A tensor of tens of gigabytes, such as
    # a KV cache, then fits neither into what is cut up nor beside it. Call this where one ends and before one begins.
    if device.type == "cuda":
        torch.cuda.empty_cache()
