"""The programs that come with languages: a run's seeds, which may be the user's own, reserved ones, and new ideas.

No task bank holds a program that is similar to a reserved one, and no warm start learns from one.
"""

from __future__ import annotations

from functools import cache
from itertools import chain

from redqueen.config import GameConfig
from redqueen.records import Draft, Kind, Task
from redqueen.tasks.kinds import Half, Language, SeedError, TaskKind, find, find_or_plain, languages, names

__all__ = ["AUTHOR", "OWN", "Half", "SeedError", "is_fixed", "is_reserved", "seeds_of"]

AUTHOR = "seed"
"""The author of the shipped seeds."""
OWN = "own"
"""The author of the user's tasks: those of `game.seeds` and `game.tasks`."""
FIXED = (AUTHOR, OWN, "bank")
"""The authors of fixed tasks. A run of an older version wrote "bank" for those of `game.tasks`."""


def is_fixed(task: Task) -> bool:
    """Returns whether a task was there before the run: a seed, or one of the user's. It is never withdrawn."""
    return task.author in FIXED


def seeds_of(game: GameConfig) -> tuple[Draft, ...]:
    """Returns a run's seed drafts: those of the file `game.seeds`, or the shipped ones. Raises SeedError."""
    return tuple(chain.from_iterable(language.seeds(game.seeds) for language in languages(game.kinds)))


def is_reserved(program: str, kind: str | None = None) -> bool:
    """Returns whether a program is similar to a reserved one, up to names and constants.

    `kind` says whose language it is in; without it, it is tried in all of them.
    """
    every: list[Language] = languages(names()) if kind is None else [find_or_plain(kind).language]
    return any(language.is_reserved(program) for language in every)


# What makes a task new: an idea that was not there before, for each kind on its own.
#
# A task with another name or constant in a known program is worth playing, but it is no new idea. So novelty is
# measured up to names and constants. What the idea of a task is, its kind says (`TaskKind.idea`).


def idea(task: Task) -> str:
    """Returns what the author of the task thought of, as a text to compare."""
    return find(task.kind).idea(task.program, task.message)


def seed_ideas(kind: Kind) -> frozenset[str]:
    """Returns the ideas of all seed programs, whether a run plants them or not: the warm start has seen them all."""
    return _seed_ideas(find(kind))


@cache
def _seed_ideas(kind: TaskKind) -> frozenset[str]:
    return frozenset(kind.idea(draft.program, draft.message) for draft in kind.language.seeds())
