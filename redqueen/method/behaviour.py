"""What the jail can say of a task's program beside a verdict: its behaviour on typed inputs, and its true work.

Programs of equal signatures are called on the same inputs, so that equal behaviours can be counted. Nothing here is
judged or paid: a program that notices the calls can only spoil its own measures.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.base import streams
from redqueen.jail import MAX_TEXT_BYTES, CodecError, canonical, parse_arguments, parse_literal, to_literal
from redqueen.method.prompts import Prompts, WithLessons
from redqueen.records import Attempted, Pair, Task, Verifier
from redqueen.tasks.kinds import find
from redqueen.tasks.programs.signatures import arguments_of, text_of_union, typed_inputs

CPU_S = 0.1
"""The CPU time of all calls of one program. A program that needs more has no behaviour."""
ENOUGH = 5
"""How many calls must end without an error before the number of different outputs means something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What came of calling a program on the typed inputs of its task."""

    inputs: int
    """How many inputs it was called on."""
    cell: str
    """A hash of the types of the inputs and of what each gave, the names of errors included."""
    distinct_outputs: int | None
    """The different outputs; None if fewer than `ENOUGH` calls gave one."""
    same_output_rate: float
    """The share of the inputs that give the output of the task, of its first pair."""
    echo: bool
    """Whether that output, given as the input, gives itself."""


def behaviours(tasks: Iterable[Task], verifier: Verifier) -> dict[str, Behaviour]:
    """Returns the behaviours of tasks by their ids. Programs that take too long have none."""
    # All are submitted before the first is waited for, so that every worker of the sandbox has something to do.
    submitted = {task.id: submit_behaviour(task, verifier) for task in tasks if has_behaviour(task)}
    called = {name: result() for name, result in submitted.items()}
    return {name: behaviour for name, behaviour in called.items() if behaviour is not None}


def has_behaviour(task: Task) -> bool:
    """Returns whether a task's kind and language let its program be called on foreign inputs."""
    kind = find(task.kind)
    return kind.guessable and kind.language.called(task.program) is not None


def submit_behaviour(task: Task, verifier: Verifier) -> Callable[[], Behaviour | None]:
    """Calls a task's program while the caller goes on. What is returned waits for the behaviour and returns it.

    Raises ValueError if it has none (`has_behaviour`).
    """
    program = find(task.kind).language.called(task.program)
    if program is None:
        raise ValueError(f"a task of the kind {task.kind} has no behaviour")
    arguments = arguments_of([parse_arguments(pair.input) for pair in task.pairs])
    types = ", ".join(map(text_of_union, arguments))
    calls = typed_inputs(arguments)
    output = task.pairs[0].output
    # The last call is the echo.
    texts = (*(", ".join(map(to_literal, call)) for call in calls), output)
    future = verifier.run(program, texts, CPU_S)
    return lambda: read_behaviour(types, len(calls), output, future.result())


def read_behaviour(types: str, inputs: int, output: str, outcomes: tuple[str, ...]) -> Behaviour | None:
    """Returns what the `outcomes` of the calls mean, None if some of the `inputs` have none.

    `types` are those of the inputs and `output` is the task's own.
    """
    if len(outcomes) < inputs:
        return None
    try:
        ends = [parse_literal(text) for text in outcomes]
        results = [canonical(value) if ended else None for ended, value in ends]
    except (CodecError, TypeError, ValueError):
        # The program replaced the function that calls it.
        return None
    own = canonical(parse_literal(output))
    counts = Counter(results[:inputs])
    answered = inputs - counts.pop(None, 0)
    return Behaviour(
        inputs=inputs,
        cell=_hash([types, *outcomes[:inputs]]),
        distinct_outputs=len(counts) if answered >= min(ENOUGH, inputs) else None,
        same_output_rate=counts[own] / inputs,
        echo=results[inputs:] == [own],
    )


def _hash(parts: Iterable[Any]) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


# True work: the jail runs a program and says what its expressions were worth. Lessons teach it, metrics compare it.

TRACE_CPU_S = 1.0
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
            return self.verifier.run(program, inputs, TRACE_CPU_S, MAX_TEXT_BYTES, task.kind).result()

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
