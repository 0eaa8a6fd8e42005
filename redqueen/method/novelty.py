"""What makes a task new: an idea that was not there before, for each kind on its own.

A task with another name or constant in a known program is worth playing, but it is no new idea. So novelty is measured
up to names and constants. What the idea of a task is, its kind says (`TaskKind.idea`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from redqueen.records import Kind, Task
from redqueen.tasks.kinds import TaskKind, find, languages


def idea(task: Task) -> str:
    """Returns what the author of the task thought of, as a text to compare."""
    return find(task.kind).idea(task.program, task.message)


def seed_ideas(kind: Kind) -> frozenset[str]:
    """Returns the ideas of all seed programs, whether a run plants them or not: the warm start has seen them all."""
    return _seed_ideas(find(kind))


@cache
def _seed_ideas(kind: TaskKind) -> frozenset[str]:
    return frozenset(kind.idea(draft.program, draft.message) for draft in kind.language.seeds())


def seed_shapes(kinds: Iterable[Kind]) -> frozenset[str]:
    """Returns the shapes of the shipped seed programs of these kinds' languages."""
    shapes: set[str] = set()
    for language in languages(kinds):
        shapes.update(language.shape(draft.program) for draft in language.seeds())
    return frozenset(shapes)
