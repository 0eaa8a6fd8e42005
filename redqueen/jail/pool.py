"""The sandbox as others use it: a pool of workers behind `run` and `submit`."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from queue import SimpleQueue
from typing import cast

from redqueen.jail.job import GAME, Job, Outcome, Profile, type_of
from redqueen.jail.probes import PROCESS, IsolationError, cores, probe
from redqueen.jail.process import Interpreters
from redqueen.jail.worker import Worker, run_job

MAX_WAITING = 1024
"""Jobs submitted and not yet done; `submit` waits while there are so many, so that a queue cannot fill the memory."""


class Sandbox(AbstractContextManager["Sandbox", None]):
    r"""Runs untrusted programs, each in a process of its own, under the rules of one profile.

    Raises IsolationError, with the names of the probes that failed, if the machine cannot isolate a program, unless
    `allow_unsafe` is set. `tier` says what was found.

    >>> with Sandbox(workers=1) as sandbox:  # doctest: +SKIP
    ...     sandbox.run([Job("def f(x):\n    return x + 1", ("41",))])
    [Outcome(status='ok', outputs=('42',), detail='', cpu_ms=2.1)]
    """

    def __init__(self, profile: Profile = GAME, workers: int | None = None, *, allow_unsafe: bool = False) -> None:
        if not isinstance(cast("object", profile), Profile):
            raise ValueError(f"the profile must be a Profile, such as GAME or PROGRAMS, not {type_of(profile)}")
        if workers is not None and (not isinstance(cast("object", workers), int) or workers < 1):
            raise ValueError(f"workers must be a positive integer, not {workers!r}")
        self.profile = profile
        self.tier, probes = probe()
        if self.tier == PROCESS and not allow_unsafe:
            failed = [f"{result.name} ({result.detail})" for result in probes if result.required and not result.ok]
            raise IsolationError(
                f"programs cannot be isolated on this machine: {', '.join(failed)}; "
                "--unsafe-no-isolation runs them anyway, with this user's rights"
            )
        self._owner = os.getpid()
        workers = workers or cores()
        self._interpreters = Interpreters(profile, workers)
        self._workers = [Worker(self._interpreters) for _ in range(workers)]
        self._free = _FreeWorkers(self._workers)
        self._room = threading.BoundedSemaphore(MAX_WAITING)
        # Twice as many threads as workers: one reads a job or judges it while another one's child runs. A zygote dies
        # with the thread that started it, and these threads live as long as the pool.
        self._threads = ThreadPoolExecutor(2 * workers, thread_name_prefix="sandbox")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A caller that leaves in an error does not want the rest of the queue.
        if kind is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self.close()

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """The outcomes of all jobs, in their order. Raises ValueError for what is no list of jobs."""
        if isinstance(cast("object", jobs), Job):
            raise ValueError("the jobs must be a list, not a Job: run([job])")
        futures = [self.submit(job) for job in jobs]
        return [future.result() for future in futures]

    def submit(self, job: Job) -> Future[Outcome]:
        """Queues one job. Returns at once unless `MAX_WAITING` jobs are waiting already.

        Raises ValueError for what is no job.
        """
        if not isinstance(cast("object", job), Job):
            raise ValueError(f"what is submitted must be a Job(program, inputs), not {type_of(job)}")
        if os.getpid() != self._owner:
            raise RuntimeError("this sandbox belongs to another process; make a new one after forking")
        self._room.acquire()
        try:
            future = self._threads.submit(self._serve, job)
        except RuntimeError:
            # The pool is closed, so the job takes no room.
            self._room.release()
            raise
        future.add_done_callback(lambda _: self._room.release())
        return future

    def close(self) -> None:
        """Finishes the jobs already submitted, then ends every process. Does nothing the second time."""
        if os.getpid() != self._owner:
            return
        self._threads.shutdown(wait=True)
        for worker in self._workers:
            worker.close()
        self._interpreters.close()

    def _serve(self, job: Job) -> Outcome:
        return run_job(job, self.profile.limits, self._worker)

    @contextmanager
    def _worker(self, job: Job, work: bytes) -> Iterator[Worker]:
        worker = self._free.take(job, work)
        try:
            yield worker
        finally:
            self._free.give_back(worker)


class _FreeWorkers:
    """The workers that are not in use. Threads that wait for one get it in the order in which they came."""

    # A plain queue would be unfair: the thread that puts a worker back and takes the next job at once is there before
    # the thread that the queue wakes, so a few threads keep the workers among themselves.

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = deque(workers)
        # A place for each thread that waits, and what it waits to do. While one waits, no worker is free.
        self._waiting: deque[tuple[SimpleQueue[Worker], Job, bytes]] = deque()
        self._lock = threading.Lock()

    def take(self, job: Job, work: bytes) -> Worker:
        """Returns a worker for a job, which may have begun on it; waits until it is this thread's turn."""
        with self._lock:
            if self._workers:
                return self._workers.popleft()
            turn: SimpleQueue[Worker] = SimpleQueue()
            self._waiting.append((turn, job, work))
        return turn.get()

    def give_back(self, worker: Worker) -> None:
        """Hands a worker to the thread that has waited longest, if one waits, with its job begun."""
        with self._lock:
            if not self._waiting:
                self._workers.append(worker)
                return
            turn, job, work = self._waiting.popleft()
        try:
            worker.begin(job, work)
        finally:
            turn.put(worker)
