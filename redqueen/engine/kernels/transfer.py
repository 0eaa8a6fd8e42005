"""Copies between host and device that do not make the host wait, and memory that torch keeps on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor


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
