"""The sandbox as others use it: a pool of workers behind `run` and `submit`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from types import TracebackType

from redqueen.machine import cores
from redqueen.sandbox.job import Job, Limits, Outcome
from redqueen.sandbox.probes import PROCESS, IsolationError, probe
from redqueen.sandbox.worker import Worker, run_job

_DEFAULT_LIMITS = Limits()
MAX_WAITING = 1024
"""Jobs handed in and not yet done; `submit` waits while there are so many, so that a queue cannot fill the memory."""


class Sandbox:
    """Runs untrusted programs, each in a process of its own.

    Refuses to exist (`IsolationError`, naming the probes that failed) where the machine cannot isolate a
    program, unless `allow_unsafe` is set; `tier` says what was found.

    >>> with Sandbox(workers=1) as sandbox:  # doctest: +SKIP
    ...     sandbox.run([Job("def f(x):\\n    return x + 1", ("41",))])
    [Outcome(status='ok', outputs=('42',), detail='', cpu_ms=2.1)]
    """

    def __init__(
        self, limits: Limits = _DEFAULT_LIMITS, workers: int | None = None, *, allow_unsafe: bool = False
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError("workers must be at least 1")
        self.limits = limits
        self.tier, probes = probe()
        if self.tier == PROCESS and not allow_unsafe:
            failed = [f"{found.name} ({found.detail})" for found in probes if found.required and not found.ok]
            raise IsolationError(
                f"programs cannot be isolated on this machine: {', '.join(failed)}; "
                "--unsafe-no-isolation runs them anyway, with this user's rights"
            )
        self._owner = os.getpid()
        self._workers = [Worker(limits) for _ in range(workers or cores())]
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._free.put(worker)
        self._room = threading.BoundedSemaphore(MAX_WAITING)
        # Twice as many threads as workers: one reads a job or judges it while another one's child runs. A zygote dies
        # with the thread that started it; these end with the pool.
        self._threads = ThreadPoolExecutor(2 * len(self._workers), thread_name_prefix="sandbox")

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:  # whoever is leaving in an error does not want the rest of the queue
            self._threads.shutdown(wait=False, cancel_futures=True)
        self.close()

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """The outcomes of all jobs, in their order."""
        return [future.result() for future in [self.submit(job) for job in jobs]]

    def submit(self, job: Job) -> Future[Outcome]:
        """Hand in one job; returns at once unless `MAX_WAITING` jobs are waiting already."""
        if os.getpid() != self._owner:
            raise RuntimeError("this sandbox belongs to another process; make a new one after forking")
        self._room.acquire()
        try:
            future = self._threads.submit(self._serve, job)
        except RuntimeError:  # closed
            self._room.release()
            raise
        future.add_done_callback(lambda _: self._room.release())
        return future

    def close(self) -> None:
        """Finish the jobs already submitted, then end every process. Safe to call twice."""
        if os.getpid() != self._owner:
            return
        self._threads.shutdown(wait=True)
        for worker in self._workers:
            worker.close()

    def _serve(self, job: Job) -> Outcome:
        return run_job(job, self.limits, self._worker())

    @contextmanager
    def _worker(self) -> Iterator[Worker]:
        worker = self._free.get()
        try:
            yield worker
        finally:
            self._free.put(worker)
