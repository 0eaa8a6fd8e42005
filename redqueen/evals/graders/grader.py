"""What a benchmark's loader gives a grader, and how a grader judges an answer: with the game's own verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from redqueen.base.closing import Closing
from redqueen.base.futures import finished, then
from redqueen.jail import BENCHMARKS, Sandbox
from redqueen.method.verifier import answer_to
from redqueen.records import Task, Verdict, Verifier


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


# Judges answers to tasks of the game: the reserved programs. A problem's `data` has the `task`.


class GameGrader:
    """Hands answers to the game's verifier. The verifier stays open when the grader is closed."""

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier

    def submit(self, problem: Problem, answer: str) -> Future[Verdict]:
        task: Task = problem.data["task"]
        return then(self.verifier.judge_answer(answer_to(task, answer)), _of_the_answer)

    def close(self) -> None:
        """Does nothing: the opener of the verifier closes it."""


def _of_the_answer(verdict: Verdict) -> Verdict:
    # A program that does not repeat its own output says nothing about the answer, as a fault of the machine does not.
    if verdict.status == "nondeterministic":
        return replace(verdict, status="infra_error", detail=f"the program is not deterministic: {verdict.detail}")
    return verdict


# Opens the graders that an evaluation needs, and closes them.


class OpenGraders(Closing):
    """The graders of benchmarks; each starts when it is first asked for. A context manager, which closes them."""

    def __init__(self, verifier: Verifier, cache: Path | None = None) -> None:
        """The expected outputs of evalplus' problems are kept in the file `cache`, if one is named."""
        self.verifier = verifier
        self.cache = cache
        self._sandbox: Sandbox | None = None
        self._opened: dict[OpenGrader, Grader] = {}

    @property
    def sandbox(self) -> Sandbox:
        """One sandbox for all graders of programs; it starts when it is first asked for."""
        if self._sandbox is None:
            self._sandbox = Sandbox(BENCHMARKS)
        return self._sandbox

    def get(self, opens: OpenGrader) -> Grader:
        """Returns the grader that `opens` opens. Raises UserError if a library that it needs is not installed."""
        if opens not in self._opened:
            self._opened[opens] = opens(self)
        return self._opened[opens]

    def close(self) -> None:
        for grader in self._opened.values():
            grader.close()
        if self._sandbox is not None:
            self._sandbox.close()


OpenGrader = Callable[[OpenGraders], Grader]
"""Opens a grader with what all graders share: the verifier, a sandbox, a file for what references give."""


def game(shared: OpenGraders) -> Grader:
    """Opens the game's own judge; a problem's `data` has the `task`."""
    return GameGrader(shared.verifier)
