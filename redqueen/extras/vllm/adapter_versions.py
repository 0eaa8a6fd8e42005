"""Keeps an engine's adapters those of the bank: each version of a member's weights is an adapter of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import torch

from redqueen.engine.adapters.factors import Factors
from redqueen.engine.adapters.peft_files import save_adapter
from redqueen.engine.lora.adapter_bank import AdapterBank

# Memory with names in a file system, where the machine has it. Elsewhere the folder for temporary files is used.
_SHARED_MEMORY = Path("/dev/shm")
# Bytes that are left to others there: an adapter's small files, and queues of vLLM's processes.
_SPARE = 16 << 20


def shared_memory(size: int) -> Path | None:
    """Returns a folder in memory that has room for so many bytes; None where the machine has none."""
    # A container has 64 MB there unless it is told otherwise, and a file that does not fit ends the run.
    if not _SHARED_MEMORY.is_dir() or shutil.disk_usage(_SHARED_MEMORY).free < size + _SPARE:
        return None
    return _SHARED_MEMORY


def adapter_bytes(bank: AdapterBank, dtype: torch.dtype) -> int:
    """Returns the bytes of a member's weights in a file of this dtype, at most."""
    return bank.masters.shape[1] * dtype.itemsize


class AdapterHost(Protocol):
    """What loads adapters: an engine of ours, or a server."""

    def load(self, name: str, number: int, folder: Path) -> Any:
        """Loads a PEFT folder and returns a handle."""
        ...

    def unload(self, number: int) -> None:
        """Unloads the adapter of this number."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedAdapter:
    """One version of a slot's weights in the engine."""

    writes: int
    """The slot's count of writes in the bank when it was copied."""
    number: int
    name: str
    """The member's name and the number, e.g. `S3@17`."""
    handle: Any


class AdapterVersions:
    """The adapters that an engine has, by slot of the bank.

    The engine holds at most one adapter more than the bank has slots: a new version is there before the old one goes.
    """

    def __init__(self, bank: AdapterBank, host: AdapterHost, base: str, dtype: torch.dtype) -> None:
        """`base` is the base model's name, `dtype` that of its weights."""
        self.bank = bank
        self.host = host
        self.base = base
        self.dtype = dtype
        self.loaded: dict[int, LoadedAdapter] = {}
        self._numbers = count(1)

    def update(self, slots: Iterable[int]) -> None:
        """Loads the present weights of these slots, and unloads what they replace and what has left the bank."""
        for slot in sorted(self.loaded.keys() & set(self.bank.free)):
            self.host.unload(self.loaded.pop(slot).number)
        names = {slot: name for name, slot in self.bank.slots.items()}
        for slot in sorted(set(slots)):
            old = self.loaded.get(slot)
            if old is not None and old.writes == self.bank.writes[slot]:
                continue
            self.loaded[slot] = self._load(names[slot], slot)
            if old is not None:
                self.host.unload(old.number)

    def _load(self, member: str, slot: int) -> LoadedAdapter:
        # vLLM caches by name and path what adapters computed, and knows their weights by number. A version that reused
        # one of the three would be served old results (vLLM issues 30931, 42125), and one that is loaded in place is
        # read from disk again at every step (issue 41482).
        number = next(self._numbers)
        name = f"{member}@{number}"
        writes = self.bank.writes[slot]
        # Who needs the files longer than `load` takes makes a copy. Our own engine never drops an adapter by itself, so
        # that shared memory holds one adapter at a time.
        size = adapter_bytes(self.bank, self.dtype)
        with tempfile.TemporaryDirectory(prefix="redqueen-", dir=shared_memory(size)) as parent:
            folder = Path(parent) / name
            self._write(member, slot, folder)
            handle = self.host.load(name, number, folder)
        return LoadedAdapter(writes, number, name, handle)

    def _write(self, member: str, slot: int, folder: Path) -> None:
        """Writes a member as a PEFT folder whose scale is 1."""
        # alpha / rank is folded into B before B is rounded, as in the bank's own copies. vLLM would fold it into the
        # rounded B, and so round twice.
        scale = self.bank.scales[slot]
        factors = self.bank.read(member)
        folded = {layer: Factors(pair.a, pair.b * scale) for layer, pair in factors.items()}
        rank = self.bank.ranks[slot]
        save_adapter(folder, folded, alpha=rank, base=self.base, dtype=self.dtype)
