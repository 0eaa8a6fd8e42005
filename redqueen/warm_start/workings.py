"""The work that lessons teach: the jail runs the programs of the lessons and says what their expressions were worth."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from redqueen.base import streams
from redqueen.kinds import find
from redqueen.records import Pair, Task, Verifier
from redqueen.sandbox import MAX_TEXT_BYTES

CPU_S = 1.0
MISSES = (0.7, 0.2, 0.1)
"""How often no, one or two inputs are tried in a lesson before the right one."""


class SeedWorkings:
    """Traces programs, and knows the other inputs of those it was given (`redqueen.kinds.Workings`)."""

    def __init__(self, verifier: Verifier, tasks: Iterable[Task], seed: int) -> None:
        """`tasks` are programs with all their inputs."""
        self.verifier = verifier
        self.seed = seed
        self.pairs: dict[str, tuple[Pair, ...]] = {}
        for task in tasks:
            self.know(task)

    def know(self, task: Task) -> None:
        """Remembers a program with all its inputs."""
        self.pairs[task.program] = task.pairs

    def trace(self, task: Task, given: str) -> tuple[str, ...] | None:
        def run(program: str, inputs: tuple[str, ...]) -> tuple[str, ...]:
            return self.verifier.run(program, inputs, CPU_S, MAX_TEXT_BYTES).result()

        return find(task.kind).language.trace(task.program, given, run)

    def misses(self, task: Task) -> Sequence[Pair]:
        right = task.pairs[0]
        others = [pair for pair in self.pairs.get(task.program, ()) if pair.output != right.output]
        rng: random.Random = streams.python(self.seed, "misses", task.program, right.input)
        (wanted,) = rng.choices(range(len(MISSES)), MISSES)
        return rng.sample(others, min(wanted, len(others)))
