"""The reserved programs as tasks: posed in every kind, with worked examples that are not reserved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from redqueen.base import streams
from redqueen.errors import UserError
from redqueen.method.planting import seed_tasks, verified_tasks
from redqueen.records import Kind, Task, Verifier
from redqueen.tasks.kinds import Half, Language, find, languages, task_on

Examples = dict[Kind, list[Task]]
"""Worked examples by kind."""


def most_tasks(half: Half | None, kinds: Sequence[Kind]) -> int:
    """Returns how many tasks the programs of a half, or all, make at most: each is posed once in each kind."""
    return sum(len(find(kind).language.reserved(half)) for kind in kinds)


def reserved_tasks(half: Half | None, kinds: Sequence[Kind], count: int, seed: int, verifier: Verifier) -> list[Task]:
    """Returns `count` tasks on the programs of a half, or of both, in the order that `seed` draws.

    The kinds take turns. A program comes again, in another kind, only after all others have come. There are fewer tasks
    if a kind cannot be made of some programs. Raises UserError if a program fails in the sandbox.
    """
    by_language = [_of_language(language, half, kinds, count, seed, verifier) for language in languages(kinds)]
    # Several languages take turns as well.
    tasks = [task for turn in zip_longest(*by_language) for task in turn if task is not None]
    return tasks[:count]


def _of_language(
    language: Language, half: Half | None, kinds: Sequence[Kind], count: int, seed: int, verifier: Verifier
) -> list[Task]:
    own = [kind for kind in kinds if find(kind).language.name == language.name]
    # Half of 70 programs in three kinds makes 210 tasks. Only the programs that are needed run in the sandbox.
    name_of_half = half or "all"
    drafts = {f"reserved-{name_of_half}-{number}": draft for number, draft in enumerate(language.reserved(half))}
    # All are drawn and then cut: what `sample` draws first depends on how many it is asked for.
    drawn = streams.python(seed, "reserved", name_of_half).sample(list(drafts), len(drafts))
    names = drawn[:count]
    programs = verified_tasks(verifier, {name: drafts[name] for name in names}, language)
    if len(programs) < len(names):
        raise UserError(
            f"{len(names) - len(programs)} of {len(names)} reserved programs failed in the sandbox: see redqueen doctor"
        )
    tasks: list[Task] = []
    for turn in range(len(own)):
        for number, program in enumerate(programs):
            kind = own[(number + turn) % len(own)]
            task = task_on(program, kind, streams.python(seed, "reserved", program.id, kind))
            tasks += [] if task is None else [task]
    return tasks


def worked_examples(kinds: Sequence[Kind], shots: int, seed: int, verifier: Verifier) -> Examples:
    """Returns `shots` seed programs as worked examples of each kind: what is asked about is never shown."""
    examples: Examples = {kind: [] for kind in kinds}
    for language in languages(kinds):
        numbers = streams.python(seed, "reserved", "shots").sample(range(len(language.seeds())), shots)
        for whole in seed_tasks(verifier, language, numbers):
            for kind in kinds:
                made = task_on(whole, kind, streams.python(seed, "reserved", whole.id, kind))
                if made is not None:
                    examples[kind].append(made)
    return examples
