"""What a benchmark's loader gives a grader, and how a grader judges an answer: with the game's own verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from redqueen.base.closing import Closing
from redqueen.base.futures import finished
from redqueen.records import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of a benchmark.

    >>> Problem(id="test/7", benchmark="gsm8k", prompt="How many ...?", data={"answers": ("42",)}).benchmark
    'gsm8k'
    """

    id: str
    """The benchmark's own name of the problem."""
    benchmark: str
    prompt: str
    """The benchmark's own text of the problem."""
    data: Mapping[str, Any]
    """What the grader needs: inputs, entry point, reference answers. Each grader's module says which keys it reads."""


class Grader(Protocol):
    """Judges answers: code or a mathematical expression, as `extraction` takes it from a model's text."""

    def submit(self, problem: Problem, answer: str) -> Future[Verdict]:
        """Queues one answer and returns at once, unless the queue is full.

        A fault of the machine is `infra_error`, and counts nowhere. No verdict is `valid` or `nondeterministic`.
        """
        ...

    def close(self) -> None:
        """Finishes what was submitted and ends every process. Does nothing the second time."""
        ...


class ThreadedGrader(Closing):
    """Judges several answers at a time; each thread waits for another process most of the time."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="grader")

    def submit(self, problem: Problem, answer: str) -> Future[Verdict]:
        return self._threads.submit(self.grade, problem, answer)

    def grade(self, problem: Problem, answer: str) -> Verdict:
        """Returns what the benchmark's rules say about one answer."""
        raise NotImplementedError

    def close(self) -> None:
        self._threads.shutdown(wait=True)


class DataGrader:
    """Judges answers by a function, in this process: for answers that are compared as data. It never runs a program."""

    def __init__(self, right: Callable[[Problem, str], bool]) -> None:
        """`right` returns whether an answer is right."""
        self.right = right

    def submit(self, problem: Problem, answer: str) -> Future[Verdict]:
        return finished(Verdict("correct" if self.right(problem, answer) else "wrong"))

    def close(self) -> None:
        """Does nothing."""
