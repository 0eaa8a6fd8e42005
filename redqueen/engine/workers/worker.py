"""One worker process of the pool. It reads the base and the adapters in shared memory and gets jobs over a pipe.

It does not import transformers, so that it starts fast and stays small.
"""

from __future__ import annotations

import io
import os
import pickle
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import connection, parent_process
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from redqueen.engine.kernels.torch_ops import packed
from redqueen.engine.learning.gradients import ForwardOptions, TokenStats, accumulate, read_stats, warm_up
from redqueen.engine.learning.packing import PromptGroup
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.lora.sites import Site
from redqueen.engine.model.decoder import Decoder
from redqueen.engine.sampling.continuous_batch import BatchLimits, ContinuousBatch, RowGroup, TextModel
from redqueen.engine.tensor_memory import SharedBlock
from redqueen.errors import UserError

# Pickles a decoder for another process. Its tensors are pickled as places in shared memory, not as bytes.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """The message that a worker gets when it starts: what it needs for a bank over the same memory."""

    base: SharedBlock
    decoder: bytes
    """The pickled decoder, whose tensors are places in the base's memory."""
    tokenizer: str
    """The tokenizer as JSON."""
    members: SharedBlock
    """The adapter bank."""
    gradients: SharedBlock
    """The worker's own gradients; the parent reads them."""
    slots: int
    rank: int
    alpha: float
    targets: tuple[str, ...]
    threads: int


@dataclass(frozen=True, slots=True)
class SampleJob:
    """Asks a worker to sample these groups. The worker sends each complete `Row`, a `SampleResult`, then `Done`."""

    groups: Sequence[RowGroup]
    limits: BatchLimits
    end_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class GradientJob:
    """Asks a worker to compute the gradients of these micro-batches in its own memory.

    The worker sends a `GradientResult` for each, then `Done`.
    """

    batches: Sequence[Sequence[PromptGroup]]
    options: ForwardOptions
    slots: tuple[int, ...]
    """The slots to clear first: those of all workers' batches."""
    scales: tuple[float, ...]
    """The scale of each slot's update. It changes with a member's rank and is not in shared memory."""


@dataclass(frozen=True, slots=True)
class GradientResult:
    """The message that one micro-batch is done."""

    stats: dict[int, TokenStats]
    """By slot."""
    tokens: int
    """How many rows the micro-batch had."""


@dataclass(frozen=True, slots=True)
class SampleResult:
    """The message that all groups of a job are sampled."""

    steps: int


@dataclass(frozen=True, slots=True)
class Done:
    """The message that a job has ended."""

    error: Exception | None = None
    """The error that ended the job; None if it succeeded."""


def serve(pipe: connection.Connection) -> None:
    """Runs the worker until the pipe closes or its parent dies. What comes first is its `WorkerSetup`."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    # A parent that stops closes the pipe at any time, and no longer waits for an answer.
    with suppress(EOFError, ConnectionError):
        setup: WorkerSetup = pipe.recv()
        torch.set_num_threads(setup.threads)
        worker = _Worker(setup)
        pipe.send(Done())
        while True:
            _work(worker, pipe.recv(), pipe)


def _work(worker: _Worker, job: SampleJob | GradientJob, pipe: connection.Connection) -> None:
    try:
        if isinstance(job, SampleJob):
            worker.sample(job, pipe)
        else:
            worker.accumulate(job, pipe)
        pipe.send(Done())
    # A user's error keeps its type, because the command line prints its message alone. Another error may not be
    # picklable, so its traceback is sent as text.
    except UserError as error:
        pipe.send(Done(error))
    except Exception:  # noqa: BLE001 - the parent waits for `Done` after any error
        pipe.send(Done(RuntimeError(traceback.format_exc())))


class _Worker:
    """Holds a decoder and an adapter bank that read the parent's memory, so that no weight is copied or stale."""

    def __init__(self, setup: WorkerSetup) -> None:
        self.decoder = load_decoder(setup.decoder, setup.base)
        self.tokenizer: Any = Tokenizer.from_str(setup.tokenizer)
        self.bank = AdapterBank(
            self.decoder.sites,
            setup.slots,
            setup.rank,
            setup.alpha,
            setup.targets,
            allocate=setup.members.allocate,
        )
        self.gradients = self.bank.gradients(setup.gradients.allocate)
        # Before the first batch: what is loaded or compiled during a batch fragments the heap (see `warm_up`).
        warm_up(self.decoder)

    def sample(self, job: SampleJob, pipe: connection.Connection) -> None:
        model = TextModel(self.decoder, self.tokenizer, job.end_ids)
        pipe.send(SampleResult(ContinuousBatch(model, self.bank, job.limits, job.groups, pipe.send).run()))

    def accumulate(self, job: GradientJob, pipe: connection.Connection) -> None:
        self.bank.scales[:] = job.scales
        self.gradients.clear(job.slots)
        for groups in job.batches:
            (stats,) = read_stats([accumulate(self.decoder, self.bank, self.gradients, groups, job.options)])
            pipe.send(GradientResult(stats, sum(group.tokens for group in groups)))


def _die_with_parent() -> None:
    """Ends this process when its parent ends, even if the parent is killed."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(1)
