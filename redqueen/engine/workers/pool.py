"""A pool of worker processes on a CPU, which share the memory of the base and the adapters.

They are processes, not threads, because decoding gains almost nothing from a second thread but is twice as fast with a
second process (measured). Work is divided by a fixed rule and not by which worker is free, so that a run repeats to the
bit on the same machine.
"""

from __future__ import annotations

import math
import multiprocessing
import signal
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from multiprocessing import connection, resource_tracker
from multiprocessing.context import SpawnContext
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from redqueen.engine.learning.gradients import ForwardOptions, TokenStats
from redqueen.engine.learning.packing import PromptGroup, fill_micro_batches
from redqueen.engine.lora.adapter_bank import AdapterBank, Gradients
from redqueen.engine.lora.products import AdaptedSite
from redqueen.engine.model.base import NO_GUARD, Base
from redqueen.engine.model.decoder import Decoder
from redqueen.engine.sampling.continuous_batch import BatchLimits, OnRow, RowGroup
from redqueen.engine.sampling.tokens import Row
from redqueen.engine.tensor_memory import SharedBlock, padded
from redqueen.engine.workers.worker import (
    Done,
    GradientJob,
    GradientResult,
    SampleJob,
    SampleResult,
    WorkerSetup,
    pickle_decoder,
    serve,
)
from redqueen.errors import WorkerError

T = TypeVar("T")


class WorkerPool:
    """Samples and computes gradients in several processes over one base and one bank of members."""

    streams = False
    samples_apart = False
    """The work is divided before it begins, so there are no further groups."""

    def __init__(self, base: Base, bank: AdapterBank, members: SharedBlock, workers: int, threads: int) -> None:
        """The tensors of `bank` are in the block `members`. Raises WorkerError if a worker does not start."""
        if base.block is None:
            raise ValueError("the base is not in shared memory: load it with model.workers above 1")
        self.base = base
        self.bank = bank
        self.pipes: list[Any] = []
        self.processes: list[Any] = []
        # Each worker adds to gradients of its own. In shared ones, the order of the additions would depend on timing,
        # and with it the last bits of the sums.
        self.gradients: list[Tensor] = []
        # A block lives as long as some process holds it, so this one holds them all.
        self.blocks = [base.block, members]

        # Workers are spawned: a forked process inherits the locks of torch's threads in any state, and can hang on one.
        context = multiprocessing.get_context("spawn")
        # Only our own forward pass is loaded into shared memory.
        decoder = pickle_decoder(cast(Decoder, base.decoder), base.block)
        tokenizer: str = base.tokenizer.backend_tokenizer.to_str()
        setups: list[WorkerSetup] = []
        for _ in range(workers):
            gradients = SharedBlock(bank.masters.nbytes)
            self.blocks.append(gradients)
            self.gradients.append(gradients.allocate(tuple(bank.masters.shape), bank.masters.dtype))
            setup = WorkerSetup(
                base=base.block,
                decoder=decoder,
                tokenizer=tokenizer,
                members=members,
                gradients=gradients,
                slots=len(bank.masters),
                rank=bank.rank,
                alpha=bank.alpha,
                targets=bank.targets,
                threads=threads,
            )
            setups.append(setup)
            self._start(context)
        # Workers start in parallel, and each sends `Done` when it is ready.
        self._collect(self._send(setups), lambda _worker, _message: None)

    def _start(self, context: SpawnContext) -> None:
        ours, theirs = context.Pipe()
        # A setup is long, and a start that hands it over would wait until the worker has loaded torch.
        process = context.Process(target=serve, args=(theirs,), daemon=True)
        with _ctrl_c_held():
            process.start()
            # Only the worker may hold its end: otherwise its death would not close the pipe.
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def close(self) -> None:
        """Ends the workers, even in the middle of a job. It may be called twice."""
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.terminate()
            process.join()
        self.pipes = []
        self.processes = []

    def sample(self, groups: Sequence[RowGroup], limits: BatchLimits, on_row: OnRow, max_further: int = 0) -> int:
        del max_further
        # Shares are divided by the expected cost, because the slowest worker decides when the phase ends. A token of a
        # prompt costs about a quarter of a sampled one (measured).
        costs = [len(group.rows) * group.max_tokens + len(group.prompt_ids) / 4 for group in groups]
        shares = partition_by_cost(groups, costs, len(self.pipes))
        end_ids = self.base.end_ids
        busy = self._send([SampleJob(share, limits, end_ids) if share else None for share in shares])
        steps = 0

        def on_message(_worker: int, message: Row | SampleResult) -> None:
            nonlocal steps
            if isinstance(message, SampleResult):
                steps += message.steps
            else:
                on_row(message)

        self._collect(busy, on_message)
        return steps

    def accumulate(
        self,
        groups: Sequence[PromptGroup],
        budget: int,
        gradients: Gradients,
        options: ForwardOptions,
        on_batch: Callable[[int], None],
    ) -> list[dict[int, TokenStats]]:
        slots = tuple(sorted({group.slot for group in groups}))
        scales = tuple(self.bank.scales)

        # Groups are divided, not micro-batches: the smaller the parts, the more even the shares.
        shares = partition_by_cost(groups, [group.tokens for group in groups], len(self.pipes))
        jobs: list[GradientJob | None] = []
        for share in shares:
            batches = list(fill_micro_batches(share, budget))
            jobs.append(GradientJob(batches, options, slots, scales) if batches else None)
        stats: dict[int, list[dict[int, TokenStats]]] = {}

        def on_result(worker: int, result: GradientResult) -> None:
            stats.setdefault(worker, []).append(result.stats)
            on_batch(result.tokens)

        self._collect(self._send(jobs), on_result)

        # In the workers' order, not in that of arrival: the last bits of a sum depend on the order.
        rows = list(slots)
        in_order: list[dict[int, TokenStats]] = []
        for worker in sorted(stats):
            gradients.flat[rows] += self.gradients[worker][rows]
            in_order += stats[worker]
        return in_order

    def _send(self, jobs: Sequence[WorkerSetup | SampleJob | GradientJob | None]) -> list[Any]:
        """Sends job i to worker i. Returns the pipes of the workers that have a job."""
        busy: list[Any] = []
        for pipe, job in zip(self.pipes, jobs, strict=True):
            if job is not None:
                try:
                    pipe.send(job)
                except OSError as error:
                    raise self._ended(pipe) from error
                busy.append(pipe)
        return busy

    def _collect(self, busy: Sequence[Any], on_message: Callable[[int, Any], None]) -> None:
        """Calls `on_message(worker, message)` for every message until each worker is done.

        Raises the first error of a worker or of `on_message`, WorkerError if a worker has ended.
        """
        working = list(busy)
        failure: Exception | None = None
        while working:
            # A process that ends closes its pipe, unless a child of its own still holds it. So the processes are waited
            # for as well.
            sentinels = {self._process(pipe).sentinel: pipe for pipe in working}
            ready: list[Any] = connection.wait([*working, *sentinels])
            for gone in ready:
                if gone in sentinels and not sentinels[gone].poll():
                    raise self._ended(sentinels[gone])
            for pipe in [item for item in ready if item not in sentinels]:
                try:
                    message = pipe.recv()
                except (EOFError, OSError) as error:
                    raise self._ended(pipe) from error
                if isinstance(message, Done):
                    working.remove(pipe)
                    failure = failure or message.error
                elif failure is None:
                    # A failure waits until the pipes are empty, or the next job would read this one's messages.
                    try:
                        on_message(self.pipes.index(pipe), message)
                    except Exception as error:  # noqa: BLE001 - raised below
                        failure = error
        if failure:
            raise failure

    def _process(self, pipe: Any) -> Any:
        return self.processes[self.pipes.index(pipe)]

    def _ended(self, pipe: Any) -> WorkerError:
        """Returns the error that tells how a worker process ended."""
        process = self._process(pipe)
        process.join(5)
        if process.exitcode == NO_GUARD:
            return WorkerError(
                "a worker process ran the script again that started it: put what the script starts under "
                '`if __name__ == "__main__":`, or set model.workers=1'
            )
        return WorkerError(
            f"a worker process ended (exit code {process.exitcode}); if memory ran out, lower sampling.batch_rows, "
            "learning.batch_tokens or model.workers"
        )


@contextmanager
def _ctrl_c_held() -> Generator[None]:
    """Holds back SIGINT from this thread in the block, and for good from a process that is started in it."""
    # A terminal sends Ctrl-C to every process of the group. Only the parent handles it, and then closes the pool; a
    # worker must not be hit while it still imports.
    # The tracker's own start, which the first worker's would bring along, lets SIGINT through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def shared_bank(
    sites: Iterable[AdaptedSite], slots: int, rank: int, alpha: float, targets: Sequence[str]
) -> tuple[AdapterBank, SharedBlock]:
    """Returns an adapter bank whose tensors are in shared memory, and the block that holds them."""
    sites = tuple(sites)
    size = 0

    def count(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        nonlocal size
        size += padded(math.prod(shape) * dtype.itemsize)
        return torch.empty(shape, dtype=dtype, device="meta")

    # A first bank on the meta device, which has no memory, asks for the same tensors. It counts how large the block
    # must be, so that no second list of their shapes has to agree with the bank.
    AdapterBank(sites, slots, rank, alpha, targets, allocate=count)
    block = SharedBlock(size)
    return AdapterBank(sites, slots, rank, alpha, targets, allocate=block.allocate), block


def partition_by_cost(items: Sequence[T], costs: Sequence[float], workers: int) -> list[list[T]]:
    """Divides the items into one share for each worker, of about the same cost. Each share keeps the items' order.

    Items are assigned from the costliest to the cheapest, each to the worker with the least cost so far ("longest
    processing time first", Graham 1969).
    """
    # The result depends on the costs only, never on timing: every run of the same work makes the same shares.
    loads = [0.0] * workers
    shares: list[list[int]] = [[] for _ in range(workers)]
    for index in sorted(range(len(items)), key=lambda i: -costs[i]):
        worker = loads.index(min(loads))
        loads[worker] += costs[index]
        shares[worker].append(index)
    result: list[list[T]] = []
    for share in shares:
        result.append([items[index] for index in sorted(share)])
    return result
