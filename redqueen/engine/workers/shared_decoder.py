"""Pickles a decoder for another process. Its tensors are pickled as places in shared memory, not as bytes."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from typing import Any

from torch import Tensor

from redqueen.engine.kernels.onednn import packed
from redqueen.engine.lora.sites import Site
from redqueen.engine.model.decoder import Decoder
from redqueen.engine.shared_memory import SharedBlock

# Stands for a weight in oneDNN's own layout. That layout is private to a process and cannot be pickled.
_PACKED = "packed"


class _DecoderPickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, block: SharedBlock) -> None:
        super().__init__(file)
        self.block = block

    def persistent_id(self, obj: Any) -> Any:
        """Returns what replaces a tensor of the block or a packed weight; None lets pickle write the object itself."""
        if not isinstance(obj, Tensor):
            return None
        if obj.is_mkldnn:
            return _PACKED
        start = self.block.offset(obj)
        return None if start is None else (start, tuple(obj.shape), tuple(obj.stride()), obj.dtype)


class _DecoderUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, block: SharedBlock) -> None:
        super().__init__(file)
        self.block = block

    def persistent_load(self, pid: Any) -> Any:
        return None if pid == _PACKED else self.block.view(*pid)


def pickle_decoder(decoder: Decoder, block: SharedBlock) -> bytes:
    """Pickles a decoder whose weights are in `block`.

    Pickles run code when they are loaded. This one goes from our process to our process, never from outside.
    """
    file = io.BytesIO()
    _DecoderPickler(file, block).dump(decoder)
    return file.getvalue()


def load_decoder(pickled: bytes, block: SharedBlock) -> Decoder:
    """Returns a decoder that reads the same memory. It packs the weights for oneDNN in this process."""
    decoder: Decoder = _DecoderUnpickler(io.BytesIO(pickled), block).load()

    def pack(site: Site) -> Site:
        return replace(site, packed=packed(site.weight))

    layers = tuple(
        replace(layer, qkv=pack(layer.qkv), o=pack(layer.o), gate_up=pack(layer.gate_up), down=pack(layer.down))
        for layer in decoder.layers
    )
    return replace(decoder, layers=layers, head=pack(decoder.head))
