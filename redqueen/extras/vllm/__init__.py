"""Samples with vLLM, and leaves gradients to another executor."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch

from redqueen.base import streams
from redqueen.config import SamplingConfig
from redqueen.engine.adapters import Factors, save_adapter
from redqueen.engine.executor import Executor
from redqueen.engine.learning.gradients import ForwardOptions, TokenStats
from redqueen.engine.learning.packing import PromptGroup
from redqueen.engine.lora.adapter_bank import AdapterBank, Gradients
from redqueen.engine.model.base import Base
from redqueen.engine.sampling.continuous_batch import BatchLimits, OnRow, RowGroup, TextModel
from redqueen.engine.sampling.tokens import Row, extend
from redqueen.errors import AdapterError, PromptError, WorkerError
from redqueen.extras.vllm.engine import Engine, Piece

# Keeps an engine's adapters those of the bank: each version of a member's weights is an adapter of its own.

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

    def __init__(self, bank: AdapterBank, host: Engine, base: str, dtype: torch.dtype) -> None:
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


# Seeds of torch's generators have 64 bits, and vLLM sends them as signed numbers.
_SEEDS = 2**63


def open_executor(
    base: Base, bank: AdapterBank, capacity: int, rank: int, sampling: SamplingConfig, learning: Executor
) -> VllmExecutor:
    """Returns an executor that samples with vLLM. If vLLM does not start, `learning` is closed."""
    try:
        # One more than there are members: a new version is loaded before the old one is unloaded.
        engine = Engine(base, capacity + 1, rank, sampling)
    except BaseException:
        learning.close()
        raise
    return VllmExecutor(base, bank, engine, learning)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The rows of one call, by the names of their requests."""

    rows: dict[str, tuple[Row, int]]
    """Rows that are being sampled, and their slots."""
    waiting: dict[str, RowGroup]
    """Groups of which only the first row was added, by its request."""


class VllmExecutor:
    """Samples with the weights that the bank has at the time of the call; `learning` computes gradients.

    vLLM draws tokens with generators of its own, so texts differ from the embedded sampler's except at temperature 0.
    """

    streams = False
    samples_apart = True
    """Further groups wait until all others have ended."""

    def __init__(self, base: Base, bank: AdapterBank, engine: Engine, learning: Executor) -> None:
        self.bank = bank
        self.engine = engine
        self.learning = learning
        self.versions = AdapterVersions(bank, engine, base.name, base.model.dtype)
        self._model = TextModel(base.decoder, base.tokenizer.backend_tokenizer, base.end_ids)
        self._numbers = count()

    def sample(self, groups: Sequence[RowGroup], limits: BatchLimits, on_row: OnRow, max_further: int = 0) -> int:
        """Samples every row. The engine was started with its limits, so `limits` are not used.

        Returns the number of vLLM's steps, in which it also computes prompts.
        """
        del max_further
        for group in groups:
            longest = len(group.prompt_ids) + group.max_tokens
            if longest > self.engine.longest:
                raise PromptError(f"{longest} tokens are more than the {self.engine.longest} of this base")
        self.versions.update(group.slot for group in groups)

        batch = _Batch({}, {})
        steps = 0
        try:
            for group in groups:
                leader = self._add(batch, group, group.rows[0])
                batch.waiting[leader] = group
            while batch.rows:
                self._step(batch, on_row)
                steps += 1
        except WorkerError:
            # There is no engine that could be told to stop.
            raise
        except BaseException:
            self.engine.abort(batch.rows)
            raise
        return steps

    def _add(self, batch: _Batch, group: RowGroup, row: Row) -> str:
        """Adds a row's request to the engine and to `batch`; returns its name."""
        request = str(next(self._numbers))
        seed = streams.key(*row.seed) % _SEEDS
        self.engine.add(request, group.prompt_ids, row.sampling, seed, self.versions.loaded[group.slot].handle)
        batch.rows[request] = (row, group.slot)
        return request

    def _step(self, batch: _Batch, on_row: OnRow) -> None:
        """Waits for tokens, and hands over the rows that they end."""
        surplus: list[str] = []
        for piece in self.engine.step():
            # The first row's token says that the prompt is in the cache, where the others find it. Had all come at
            # once, each would have computed the prompt.
            group = batch.waiting.pop(piece.request, None)
            if group is not None:
                for row in group.rows[1:]:
                    self._add(batch, group, row)
            # An ended request may be sampled once more before the engine hears that it has ended.
            if piece.request not in batch.rows:
                continue
            row, slot = batch.rows[piece.request]
            self._extend(row, slot, piece)
            if row.finish_reason:
                del batch.rows[piece.request]
                if not piece.ended:
                    surplus.append(piece.request)
                on_row(row)
        self.engine.abort(surplus)

    def _extend(self, row: Row, slot: int, piece: Piece) -> None:
        """Appends new tokens to a row. Raises AdapterError for weights that overflow."""
        if any(value != value for value in piece.logprobs):
            name = self.versions.loaded[slot].name
            raise AdapterError(f"{name}: not a number where a probability should be; its weights?")
        # vLLM knows end tokens and lengths. Strings and lines that end a row are looked for here, by the same rule as
        # in the embedded sampler.
        extend(row, piece.token_ids, piece.logprobs, self._model.end_ids, self._model.tokenizer)
        if piece.ended and not row.finish_reason:
            raise WorkerError(f"vLLM ended a request before its text had ended: {piece.ended}")

    def accumulate(
        self,
        groups: Sequence[PromptGroup],
        budget: int,
        gradients: Gradients,
        options: ForwardOptions,
        on_batch: Callable[[int], None],
    ) -> list[dict[int, TokenStats]]:
        return self.learning.accumulate(groups, budget, gradients, options, on_batch)

    def close(self) -> None:
        self.engine.close()
        self.learning.close()
