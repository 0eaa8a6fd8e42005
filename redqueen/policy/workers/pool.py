"""Worker processes on a CPU. They share the base's and the members' memory: nothing is copied, nothing goes stale.

Processes, because decoding gains next to nothing from a second thread, and twice from a second process (measured). Work
is dealt out by a fixed rule, never to whoever is free: the same run gives the same bits again on the same machine.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import connection
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import Tensor

from redqueen.errors import WorkerError
from redqueen.policy.learning.gradients import Pass, Tally
from redqueen.policy.learning.packing import Pack, batched
from redqueen.policy.lora.adapter_bank import AdapterBank, Gradients
from redqueen.policy.lora.sites import Site
from redqueen.policy.model.base import Base
from redqueen.policy.sampling.continuous_batch import Row, RowGroup
from redqueen.policy.shared_memory import Block, padded
from redqueen.policy.workers.shared_decoder import freeze
from redqueen.policy.workers.worker import Done, Learn, Place, Setup, Tallied, Write, serve

T = TypeVar("T")


class WorkerPool:
    """`workers` processes over one bank of members. Use it as a context manager, or call `close`."""

    def __init__(self, base: Base, bank: AdapterBank, members: Block, workers: int, threads: int) -> None:
        """`bank` lies in `members`. Raises WorkerError if a worker does not start."""
        if base.block is None:
            raise ValueError("the base is not in shared memory: load it with model.workers above 1")
        self.base = base
        self.bank = bank
        self.pipes: list[Any] = []
        self.processes: list[Any] = []
        self.gradients: list[Tensor] = []
        # kept: a block is gone when nobody holds it
        self.blocks = [base.block, members]
        context = multiprocessing.get_context("spawn")
        decoder, tokenizer = freeze(base.decoder, base.block), base.tokenizer.backend_tokenizer.to_str()
        for _ in range(workers):
            own = Block(bank.masters.nbytes)
            self.blocks.append(own)
            self.gradients.append(own.take(tuple(bank.masters.shape), bank.masters.dtype))
            setup = Setup(
                Place(base.block.path, base.block.size),
                decoder,
                tokenizer,
                Place(members.path, members.size),
                Place(own.path, own.size),
                len(bank.masters),
                bank.rank,
                bank.alpha,
                bank.targets,
                threads,
            )
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, setup), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        self._collect(self.pipes, lambda _worker, _message: None)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers, whatever they are doing. Safe to call twice."""
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.terminate()
            process.join()
        self.pipes, self.processes = [], []

    def sample(self, groups: Sequence[RowGroup], batch_rows: int, on_row: Callable[[Row], None]) -> None:
        """Samples the groups, a part of them in each worker."""
        # a prompt's token costs about a quarter of a sampled one (measured)
        costs = [len(g.rows) * g.max_tokens + len(g.prompt_ids) / 4 for g in groups]
        shares = deal(groups, costs, len(self.pipes))
        end_ids = self.base.end_ids
        busy = self._send([Write(share, batch_rows, end_ids) if share else None for share in shares])
        self._collect(busy, lambda _worker, row: on_row(row))

    def accumulate(
        self, packs: Sequence[Pack], budget: int, gradients: Gradients, how: Pass, on_batch: Callable[[int], None]
    ) -> list[dict[int, Tally]]:
        """Computes a part of the packs in each worker and adds the workers' gradients up."""
        slots = sorted({pack.slot for pack in packs})
        # packs, not micro-batches: the finer the parts, the more evenly they are dealt
        shares = deal(packs, [pack.tokens for pack in packs], len(self.pipes))
        scales = tuple(self.bank.scales)
        jobs = [Learn(list(batched(own, budget)), how, tuple(slots), scales) if own else None for own in shares]
        made: dict[int, list[dict[int, Tally]]] = {}

        def take(worker: int, done: Tallied) -> None:
            made.setdefault(worker, []).append(done.tallies)
            on_batch(done.tokens)

        self._collect(self._send(jobs), take)
        for worker in sorted(made):  # in a fixed order, for sums depend on it in their last bits
            gradients.flat[slots] += self.gradients[worker][slots]
        return [tallies for worker in sorted(made) for tallies in made[worker]]

    def _send(self, jobs: Sequence[object]) -> list[Any]:
        busy: list[Any] = []
        for pipe, job in zip(self.pipes, jobs, strict=True):
            if job is not None:
                try:
                    pipe.send(job)
                except OSError as error:
                    raise self._ended(pipe) from error
                busy.append(pipe)
        return busy

    def _collect(self, busy: Sequence[Any], take: Callable[[int, Any], None]) -> None:
        """What the workers send until each is done. Raises what one of them raised, WorkerError if one has ended."""
        left, failed = list(busy), None
        while left:
            ready: list[Any] = connection.wait(left)
            for pipe in ready:
                try:
                    message = pipe.recv()
                except (EOFError, OSError) as error:
                    raise self._ended(pipe) from error
                if isinstance(message, Done):
                    left.remove(pipe)
                    failed = failed or message.error
                elif failed is None:
                    try:
                        take(self.pipes.index(pipe), message)
                    except Exception as error:  # noqa: BLE001 - raised below: first the pipes must be empty again
                        failed = error
        if failed:
            raise failed

    def _ended(self, pipe: Any) -> WorkerError:
        process = self.processes[self.pipes.index(pipe)]
        process.join(5)
        return WorkerError(
            f"a worker process ended (exit code {process.exitcode}); if memory ran out, lower sampling.batch_rows, "
            "learning.batch_tokens or model.workers"
        )


def shared_bank(
    sites: Iterable[Site], slots: int, rank: int, alpha: float, targets: Sequence[str]
) -> tuple[AdapterBank, Block]:
    """An adapter bank (see there) in shared memory, and the block that it lies in."""
    sites = tuple(sites)
    size = 0

    def count(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        nonlocal size
        size += padded(math.prod(shape) * dtype.itemsize)
        return torch.empty(shape, dtype=dtype, device="meta")

    # A bank without memory asks for the same tensors, so it tells how large the block must be.
    AdapterBank(sites, slots, rank, alpha, targets, allocate=count)
    block = Block(size)
    return AdapterBank(sites, slots, rank, alpha, targets, allocate=block.take), block


def deal(items: Sequence[T], costs: Sequence[float], hands: int) -> list[list[T]]:
    """Each item, the costliest first, to the hand that holds least; within a hand the order stays."""
    held = [0.0] * hands
    places: list[list[int]] = [[] for _ in range(hands)]
    for index in sorted(range(len(items)), key=lambda i: -costs[i]):
        hand = held.index(min(held))
        held[hand] += costs[index]
        places[hand].append(index)
    return [[items[i] for i in sorted(own)] for own in places]
