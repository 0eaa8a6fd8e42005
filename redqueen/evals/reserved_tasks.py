"""The reserved programs as tasks: posed in every kind, with worked examples that are not reserved."""

from __future__ import annotations

from collections.abc import Sequence

from redqueen import streams
from redqueen.errors import UserError
from redqueen.game.reserved import Half, reserved
from redqueen.game.seeds import seeds
from redqueen.records import Kind, Task, Verifier
from redqueen.self_play import seed_tasks, verified_tasks

Examples = dict[Kind, list[Task]]
"""Worked examples by kind."""


def most_tasks(half: Half | None, kinds: Sequence[Kind]) -> int:
    """Returns how many tasks the programs of a half, or all, make: each is posed once in each kind."""
    return len(reserved(half)) * len(kinds)


def reserved_tasks(half: Half | None, kinds: Sequence[Kind], count: int, seed: int, verifier: Verifier) -> list[Task]:
    """Returns `count` tasks on the programs of a half, or of both, in the order that `seed` draws.

    The kinds take turns. A program comes again, in another kind, only after all others have come.
    Raises UserError if a program fails in the sandbox.
    """
    # Half of 70 programs in three kinds makes 210 tasks. Only the programs that are needed run in the sandbox.
    name_of_half = half or "all"
    drafts = {f"reserved-{name_of_half}-{number}": draft for number, draft in enumerate(reserved(half))}
    names = streams.python(seed, "reserved", name_of_half).sample(list(drafts), min(count, len(drafts)))
    programs = verified_tasks(verifier, {name: drafts[name] for name in names})
    if len(programs) < len(names):
        raise UserError(
            f"{len(names) - len(programs)} of {len(names)} reserved programs failed in the sandbox: see redqueen doctor"
        )
    tasks: list[Task] = []
    for turn in range(len(kinds)):
        for number, program in enumerate(programs):
            kind = kinds[(number + turn) % len(kinds)]
            tasks.append(program.as_kind(kind, streams.python(seed, "reserved", program.id, kind)))
    return tasks[:count]


def worked_examples(kinds: Sequence[Kind], shots: int, seed: int, verifier: Verifier) -> Examples:
    """Returns `shots` seed programs as worked examples of each kind: what is asked about is never shown."""
    numbers = streams.python(seed, "reserved", "shots").sample(range(len(seeds())), shots)
    shown = seed_tasks(verifier, numbers)
    examples: Examples = {}
    for kind in kinds:
        examples[kind] = [task.as_kind(kind, streams.python(seed, "reserved", task.id, kind)) for task in shown]
    return examples
