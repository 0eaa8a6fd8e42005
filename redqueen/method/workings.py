"""True work: the jail runs a program and says what its expressions were worth. Lessons teach it, metrics compare it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from redqueen.base import streams
from redqueen.jail import MAX_TEXT_BYTES
from redqueen.method.prompts import Prompts, WithLessons
from redqueen.records import Attempted, Pair, Task, Verifier
from redqueen.tasks.kinds import find

CPU_S = 1.0
MISSES = (0.7, 0.2, 0.1)
"""How often no, one or two inputs are tried in a lesson before the right one."""


class TracedWorkings:
    """Traces programs, and tries other inputs of those that it knows (`redqueen.tasks.kinds.Workings`)."""

    def __init__(self, verifier: Verifier, tasks: Iterable[Task] = (), seed: int = 0) -> None:
        """`tasks` are programs with all their inputs, which it knows."""
        self.verifier = verifier
        self.seed = seed
        self.pairs: dict[str, tuple[Pair, ...]] = {}
        for task in tasks:
            self.know(task)

    def know(self, task: Task) -> None:
        """Remembers a program with all its inputs."""
        self.pairs[task.program] = task.pairs

    def trace(self, task: Task, given: str) -> tuple[str, ...] | None:
        def run(program: str, inputs: tuple[str, ...] | tuple[bytes, ...]) -> tuple[str, ...]:
            return self.verifier.run(program, inputs, CPU_S, MAX_TEXT_BYTES, task.kind).result()

        return find(task.kind).language.trace(task.program, given, run)

    def misses(self, task: Task) -> Sequence[Pair]:
        right = task.pairs[0]
        others = [pair for pair in self.pairs.get(task.program, ()) if pair.output != right.output]
        rng: random.Random = streams.python(self.seed, "misses", task.program, right.input)
        (wanted,) = rng.choices(range(len(MISSES)), MISSES)
        return rng.sample(others, min(wanted, len(others)))


def true_work(attempted: Iterable[Attempted], prompts: Prompts, verifier: Verifier) -> dict[str, str]:
    """Returns the work of the tasks that have one right answer, by their ids, as far as an attempt at them has work.

    It is empty if the format of `prompts` does not say how work is written.
    """
    if not isinstance(prompts, WithLessons):
        return {}
    workings = TracedWorkings(verifier)
    tasks = {attempt.task.id: attempt.task for attempt in attempted if attempt.work}
    works: dict[str, str] = {}
    for name, task in tasks.items():
        if find(task.kind).only_answer(task):
            text = prompts.write_work(task, workings)
            if text is not None:
                works[name] = prompts.work(task.kind, text)
    return works
