"""The programs that come with languages: a run's seeds, which may be the user's own, and reserved ones.

No task bank holds a program that is similar to a reserved one, and no warm start learns from one.
"""

from __future__ import annotations

from itertools import chain

from redqueen.config import GameConfig
from redqueen.records import Draft, Task
from redqueen.tasks.kinds import Half, Language, SeedError, find_or_plain, languages, names

__all__ = ["AUTHOR", "OWN", "Half", "SeedError", "is_fixed", "is_reserved", "seeds_of"]

AUTHOR = "seed"
"""The author of the shipped seeds."""
OWN = "own"
"""The author of the user's tasks: those of `game.seeds` and `game.tasks`."""
# A run of an older version wrote "bank" for those of `game.tasks`.
_FIXED = (AUTHOR, OWN, "bank")


def is_fixed(task: Task) -> bool:
    """Returns whether a task was there before the run: a seed, or one of the user's. It is never withdrawn."""
    return task.author in _FIXED


def seeds_of(game: GameConfig) -> tuple[Draft, ...]:
    """Returns a run's seed drafts: those of the file `game.seeds`, or the shipped ones. Raises SeedError."""
    return tuple(chain.from_iterable(language.seeds(game.seeds) for language in languages(game.kinds)))


def is_reserved(program: str, kind: str | None = None) -> bool:
    """Returns whether a program is similar to a reserved one, up to names and constants.

    `kind` says whose language it is in; without it, it is tried in all of them.
    """
    every: list[Language] = languages(names()) if kind is None else [find_or_plain(kind).language]
    return any(language.is_reserved(program) for language in every)
