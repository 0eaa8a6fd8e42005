"""A decoder for another process: its tensors are written as places in shared memory, not as bytes."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from typing import Any

from torch import Tensor

from redqueen.policy.kernels.onednn import packed
from redqueen.policy.lora.sites import Site
from redqueen.policy.model.decoder import Decoder
from redqueen.policy.shared_memory import Block


class _Freezer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, block: Block) -> None:
        super().__init__(file)
        self.block = block

    def persistent_id(self, obj: Any) -> Any:
        """Tensors of the block by their places, packed weights not at all, everything else as it is."""
        if not isinstance(obj, Tensor):
            return None
        if obj.is_mkldnn:
            return "packed"
        start = self.block.offset(obj)
        return None if start is None else (start, tuple(obj.shape), tuple(obj.stride()), obj.dtype)


class _Thawer(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, block: Block) -> None:
        super().__init__(file)
        self.block = block

    def persistent_load(self, pid: Any) -> Any:
        return None if pid == "packed" else self.block.view(*pid)


def freeze(decoder: Decoder, block: Block) -> bytes:
    """A decoder whose weights are in `block`; our own process to our own process, never from outside."""
    file = io.BytesIO()
    _Freezer(file, block).dump(decoder)
    return file.getvalue()


def thaw(frozen: bytes, block: Block) -> Decoder:
    """The decoder again, over the same memory; this processor packs its own copy of the weights."""
    decoder: Decoder = _Thawer(io.BytesIO(frozen), block).load()

    def pack(site: Site) -> Site:
        return replace(site, packed=packed(site.weight))

    layers = tuple(
        replace(layer, qkv=pack(layer.qkv), o=pack(layer.o), gate_up=pack(layer.gate_up), down=pack(layer.down))
        for layer in decoder.layers
    )
    return replace(decoder, layers=layers, head=pack(decoder.head))
