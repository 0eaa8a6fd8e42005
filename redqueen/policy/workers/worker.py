"""One worker process of a crew: base and members in shared memory, jobs over a pipe. Imports no transformers."""

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
from redqueen.policy.learning.gradients import Pass, Tally, accumulate, rehearse
from redqueen.policy.learning.packing import Pack
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.sampling.continuous_batch import ContinuousBatch, RowGroup, TextModel
from redqueen.policy.shared_memory import Block
from redqueen.policy.workers.shared_decoder import thaw


@dataclass(frozen=True, slots=True)
class Place:
    """Shared memory and its size in bytes."""

    path: str
    size: int

    def attach(self) -> Block:
        return Block(self.size, self.path)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker needs to know once. `decoder` is pickled, its tensors being places in the base's memory."""

    base: Place
    decoder: bytes
    tokenizer: str
    members: Place
    gradients: Place
    slots: int
    rank: int
    alpha: float
    targets: tuple[str, ...]
    threads: int


@dataclass(frozen=True, slots=True)
class Write:
    """Sample these groups; each finished `Row` is sent back, then `Done`."""

    groups: Sequence[RowGroup]
    batch_rows: int
    end_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Learn:
    """Make the gradients of these micro-batches in the worker's own buffers; a `Tallied` for each, then `Done`."""

    batches: Sequence[Sequence[Pack]]
    how: Pass
    slots: tuple[int, ...]
    scales: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Tallied:
    """One micro-batch is done: its place among them all is the worker's to know, its numbers are by slot."""

    tallies: dict[int, Tally]
    tokens: int


@dataclass(frozen=True, slots=True)
class Done:
    """The job is finished; `error` says why it is not."""

    error: Exception | None = None


def serve(pipe: connection.Connection, setup: Setup) -> None:
    """The worker's life: until the pipe closes or its parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
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
            worker.write(job, pipe) if isinstance(job, Write) else worker.learn(job, pipe)
            pipe.send(Done())
        except UserError as error:
            pipe.send(Done(error))
        except Exception:  # noqa: BLE001 - whatever it is, the parent must hear of it
            pipe.send(Done(RuntimeError(traceback.format_exc())))


class _Worker:
    def __init__(self, setup: Setup) -> None:
        self.decoder = thaw(setup.decoder, setup.base.attach())
        self.tokenizer: Any = Tokenizer.from_str(setup.tokenizer)
        self.bank = AdapterBank(
            self.decoder.sites,
            setup.slots,
            setup.rank,
            setup.alpha,
            setup.targets,
            allocate=setup.members.attach().take,
        )
        self.gradients = self.bank.gradients(setup.gradients.attach().take)
        rehearse(self.decoder)

    def write(self, job: Write, pipe: connection.Connection) -> None:
        model = TextModel(self.decoder, self.tokenizer, job.end_ids)
        ContinuousBatch(model, self.bank, job.batch_rows, job.groups, pipe.send).run()

    def learn(self, job: Learn, pipe: connection.Connection) -> None:
        self.bank.scales[:] = job.scales
        self.gradients.clear(job.slots)
        for packs in job.batches:
            tallies = accumulate(self.decoder, self.bank, self.gradients, packs, job.how)
            pipe.send(Tallied(tallies, sum(pack.tokens for pack in packs)))


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(1)
