"""One worker process of the pool: base and members in shared memory, jobs over a pipe. It imports no transformers."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from typing import Any

import torch
from tokenizers import Tokenizer

from redqueen.errors import UserError
from redqueen.policy.learning.gradients import ForwardOptions, TokenStats, accumulate, warm_up
from redqueen.policy.learning.packing import PromptGroup
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.sampling.continuous_batch import ContinuousBatch, RowGroup, TextModel
from redqueen.policy.shared_memory import SharedBlock
from redqueen.policy.workers.shared_decoder import load_decoder


@dataclass(frozen=True, slots=True)
class SharedRegion:
    """How another process finds a block of shared memory."""

    path: str
    size: int
    """In bytes."""

    def attach(self) -> SharedBlock:
        """Maps the block into this process."""
        return SharedBlock(self.size, self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a worker is told once, when it starts."""

    base: SharedRegion
    """The base's weights."""
    decoder: bytes
    """The pickled decoder, whose tensors are places in the base's memory."""
    tokenizer: str
    """The tokenizer as JSON."""
    members: SharedRegion
    """The adapter bank."""
    gradients: SharedRegion
    """The worker's own gradients; the parent reads them."""
    slots: int
    rank: int
    alpha: float
    targets: tuple[str, ...]
    threads: int
    """How many threads torch uses in the worker."""


@dataclass(frozen=True, slots=True)
class SampleJob:
    """Sample these groups. The worker sends each complete `Row`, then `Done`."""

    groups: Sequence[RowGroup]
    batch_rows: int
    end_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class GradientJob:
    """Compute the gradients of these micro-batches in the worker's memory.

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
    """One micro-batch is done."""

    stats: dict[int, TokenStats]
    """Its token statistics, by slot."""
    tokens: int


@dataclass(frozen=True, slots=True)
class Done:
    """The job has ended."""

    error: Exception | None = None
    """Why it failed; None if it did not."""


def serve(pipe: connection.Connection, setup: Setup) -> None:
    """Runs the worker until the pipe closes or its parent dies."""
    # Ctrl-C is for the parent to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    torch.set_num_threads(setup.threads)
    worker = _Worker(setup)
    pipe.send(Done())
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            if isinstance(job, SampleJob):
                worker.sample(job, pipe)
            else:
                worker.accumulate(job, pipe)
            pipe.send(Done())
        except UserError as error:
            pipe.send(Done(error))
        except Exception:  # noqa: BLE001 - whatever it is, the parent must hear of it
            pipe.send(Done(RuntimeError(traceback.format_exc())))


class _Worker:
    """The decoder and the adapter bank, over the parent's memory."""

    def __init__(self, setup: Setup) -> None:
        self.decoder = load_decoder(setup.decoder, setup.base.attach())
        self.tokenizer: Any = Tokenizer.from_str(setup.tokenizer)
        self.bank = AdapterBank(
            self.decoder.sites,
            setup.slots,
            setup.rank,
            setup.alpha,
            setup.targets,
            allocate=setup.members.attach().allocate,
        )
        self.gradients = self.bank.gradients(setup.gradients.attach().allocate)
        warm_up(self.decoder)

    def sample(self, job: SampleJob, pipe: connection.Connection) -> None:
        model = TextModel(self.decoder, self.tokenizer, job.end_ids)
        ContinuousBatch(model, self.bank, job.batch_rows, job.groups, pipe.send).run()

    def accumulate(self, job: GradientJob, pipe: connection.Connection) -> None:
        self.bank.scales[:] = job.scales
        self.gradients.clear(job.slots)
        for groups in job.batches:
            stats = accumulate(self.decoder, self.bank, self.gradients, groups, job.options)
            pipe.send(GradientResult(stats, sum(group.tokens for group in groups)))


def _die_with_parent() -> None:
    """Ends this process when its parent ends, even if the parent is killed."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(1)
