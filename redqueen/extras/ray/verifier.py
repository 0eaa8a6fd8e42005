"""A verifier that asks the judges of all machines: programs run in the jail of the machine that verifies them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from operator import methodcaller
from queue import Empty, SimpleQueue
from typing import Any

from redqueen.base.closing import Closing
from redqueen.base.futures import finished
from redqueen.config import SandboxConfig
from redqueen.extras.ray.ray_cluster import Actor, Cluster, ClusterError, LostError
from redqueen.jail import IsolationError
from redqueen.method.verifier import LocalVerifier
from redqueen.plugins import load
from redqueen.records import Answer, Kind, Proposal, Task, Verdict

# A judge: one process of a node that verifies in the jail of that node.
#
# A verifier of a cluster hands each judge many questions at once, because a message costs as much as a short program.


Question = Callable[[LocalVerifier], Future[Any]]
"""Travels to a judge, which calls it with its own verifier."""


def _computed(function: Callable[[Any], Any], argument: Any, verifier: LocalVerifier) -> Future[Any]:
    """Returns what a function of ours gives that takes a while and needs nothing but its argument."""
    del verifier
    return finished(function(argument))


class Judge:
    """Answers questions by the verifier of this machine."""

    verifier: LocalVerifier

    def open(self, sandbox: SandboxConfig, min_inputs: int, seed: int, plugins: Sequence[str]) -> str:
        """Starts the jail and returns how well it isolates. `plugins` are the run's modules: kinds may be theirs.

        Raises IsolationError, with the machine's name, if programs cannot be isolated here. (A constructor's error
        would come back from Ray as text.)
        """
        load(plugins)
        try:
            self.verifier = LocalVerifier(sandbox, min_inputs, seed)
        except IsolationError as error:
            raise IsolationError(f"machine {socket.gethostname()}: {error}") from error
        return self.verifier.tier

    def answer(self, questions: Sequence[Question]) -> list[Any]:
        """Returns the answers, in order."""
        # All are submitted before the first is waited for, so that every worker of the sandbox has something to do.
        futures = [question(self.verifier) for question in questions]
        return [future.result() for future in futures]


_AT_ONCE = 256
"""Questions of one message."""
_IN_FLIGHT = 2
"""Messages that a judge has at once: while one is answered the next one is on its way."""


class ClusterVerifier(Closing):
    """Verifies on every machine of a cluster (see `redqueen.records.Verifier`)."""

    def __init__(
        self,
        cluster: Cluster,
        sandbox: SandboxConfig,
        min_inputs: int,
        seed: int,
        plugins: Sequence[str],
        report: Callable[[str], None],
    ) -> None:
        """Starts a judge on each machine. Raises IsolationError, which names the machine, if one has no jail."""
        self.report = report
        arguments = (sandbox, min_inputs, seed, plugins)
        self._judges = [cluster.start(Judge, node=node) for node in cluster.nodes()]
        opened = [judge.call("open", *arguments) for judge in self._judges]
        tiers: list[str] = [call.get() for call in opened]
        # A run's record names the weakest.
        self.tier: str = min(tiers, key=lambda tier: tier == "full")
        self._questions: SimpleQueue[tuple[Question, Future[Any]] | None] = SimpleQueue()
        self._threads = ThreadPoolExecutor(_IN_FLIGHT * len(self._judges), "judge")
        self._alive = len(self._judges)
        self._lock = threading.Lock()
        for judge in self._judges:
            gone = threading.Event()
            for _ in range(_IN_FLIGHT):
                self._threads.submit(self._serve, judge, gone)

    def judge_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        return self._ask(methodcaller("judge_proposal", proposal))

    def judge_answer(self, answer: Answer) -> Future[Verdict]:
        return self._ask(methodcaller("judge_answer", answer))

    def run(
        self,
        program: str,
        inputs: tuple[str, ...] | tuple[bytes, ...],
        cpu_s: float,
        output_bytes: int = 0,
        kind: Kind = "",
    ) -> Future[tuple[str, ...]]:
        return self._ask(methodcaller("run", program, inputs, cpu_s, output_bytes, kind))

    def spread(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        """Yields a function of each item, in order; the machines compute it. It has to be one of a module of ours."""
        for future in [self._ask(partial(_computed, function, item)) for item in items]:
            yield future.result()

    def _ask(self, question: Question) -> Future[Any]:
        future: Future[Any] = Future()
        if not self._alive:
            raise ClusterError("every machine that verifies is lost: resume the run from its last checkpoint")
        self._questions.put((question, future))
        return future

    def _serve(self, judge: Actor, gone: threading.Event) -> None:
        """Sends what is asked to one judge, many questions at a time, until the verifier is closed or it is lost.

        The threads of the last judge go on when it is lost: they answer every question with the error.
        """
        while batch := self._next_batch():
            try:
                answers = judge.call("answer", [question for question, _ in batch]).get()
            except LostError as error:
                if self._give_back(batch, gone):
                    return
                failure: Exception = ClusterError(f"every machine that verifies is lost: {error}")
            except Exception as error:  # noqa: BLE001 - whoever waits for an answer gets it
                failure = error
            else:
                for (_, future), answer in zip(batch, answers, strict=True):
                    future.set_result(answer)
                continue
            for _, future in batch:
                future.set_exception(failure)

    def _next_batch(self) -> list[tuple[Question, Future[Any]]]:
        """Waits for a question, and returns it with those that wait behind it; none if the verifier is closed."""
        batch: list[tuple[Question, Future[Any]]] = []
        item = self._questions.get()
        while item is not None:
            batch.append(item)
            if len(batch) == _AT_ONCE:
                return batch
            try:
                item = self._questions.get_nowait()
            except Empty:
                return batch
        # The mark that closes is for every thread.
        self._questions.put(None)
        return batch

    def _give_back(self, batch: list[tuple[Question, Future[Any]]], gone: threading.Event) -> bool:
        """Lets other judges answer what a lost one had not. Returns False if none is left."""
        with self._lock:
            if not gone.is_set():
                gone.set()
                self._alive -= 1
                self.report("a machine that verifies is lost: its programs are run again elsewhere")
            if not self._alive:
                return False
        for item in batch:
            self._questions.put(item)
        return True

    def close(self) -> None:
        """Ends the judges, when they have answered what was asked."""
        self._questions.put(None)
        self._threads.shutdown()
        for judge in self._judges:
            judge.kill()
        self._judges = []
