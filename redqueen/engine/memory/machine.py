"""What a run computes with: a device, the base as it is held there, and free memory. Resolved once, at the door."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from redqueen.base.machine import free_memory
from redqueen.config import ModelConfig
from redqueen.engine.model.base import can_share, device_of, dtype_of, workers_of
from redqueen.engine.model.dimensions import Shape, shape_of
from redqueen.engine.sampling.pages import pages_suit
from redqueen.jail.host import cores

FREE_SHARE = 0.98
"""The share of a GPU's memory that is free before a run: its driver takes the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine, which need not be here, and a base on it."""

    device: torch.device
    dtype: torch.dtype
    workers: int
    """The most processes that sample and train."""
    shape: Shape
    free: int = 0
    """Free bytes of the device."""
    host: int | None = None
    """Free bytes of the machine itself if the device is a GPU; None if it is unknown."""

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def token_bytes(self) -> int:
        """The bytes of the keys and values of one token of a row."""
        return 2 * self.shape.layers * self.shape.kv_heads * self.shape.head_size * self.dtype.itemsize

    @property
    def pages(self) -> bool:
        """Whether rows take pages of keys and values as they grow, instead of the room that they may need."""
        # transformers' cache has a room for each row.
        if not self.on_gpu or self.shape.hosted:
            return False
        return pages_suit(torch.empty(0, self.shape.head_size, dtype=self.dtype, device="meta"))

    def shared(self, processes: int) -> Machine:
        """Returns the share of one of several processes on this machine, each with a GPU of its own if it has any."""
        if self.on_gpu:
            return replace(self, host=None if self.host is None else self.host // processes)
        return replace(self, free=self.free // processes)


def this_machine(config: ModelConfig) -> Machine:
    """Returns the machine that this process is on. Of a model of the Hub only config.json is fetched.

    Raises ModelError if it lacks what is asked for, or if the base cannot be found or is not supported.
    """
    device = device_of(config)
    workers_of(config)
    machine = other_machine(config, device)
    if machine.on_gpu:
        return replace(machine, free=torch.cuda.mem_get_info()[0], host=free_memory())
    return replace(machine, free=free_memory())


def gpu_machine(config: ModelConfig, size: int) -> Machine:
    """Returns a machine with a GPU of `size` bytes. Raises ModelError as `this_machine` does for the base."""
    return replace(other_machine(config, torch.device("cuda")), free=int(FREE_SHARE * size))


def other_machine(config: ModelConfig, device: torch.device) -> Machine:
    """Returns a machine with such a device, of whose memory nothing is known. Raises ModelError as `gpu_machine`."""
    dtype = dtype_of(config, device)
    shape = shape_of(config)
    sharing = can_share(device) and not shape.hosted
    return Machine(device=device, dtype=dtype, workers=(config.workers or cores()) if sharing else 1, shape=shape)
