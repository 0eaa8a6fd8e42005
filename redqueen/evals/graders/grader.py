"""What a benchmark's loader gives a grader, and what the grader says about an answer."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from redqueen.records import Status


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What a grader says about one answer."""

    status: Status
    """A word of the game's verdicts, but not `valid` or `nondeterministic`."""
    detail: str = ""
    """One line for people; empty when there is nothing to say."""

    @property
    def correct(self) -> bool:
        """Whether the answer is right."""
        return self.status == "correct"

    @property
    def judged(self) -> bool:
        """Whether this is a verdict: a fault of the machine is none and counts nowhere."""
        return self.status != "infra_error"


class Grader(Protocol):
    """Judges answers: code or a mathematical expression, as `extraction` takes it from a model's text."""

    def submit(self, problem: Problem, answer: str) -> Future[Grade]:
        """Queues one answer and returns at once, unless the queue is full."""
        ...

    def close(self) -> None:
        """Finishes what was submitted and ends every process. Does nothing the second time."""
        ...
