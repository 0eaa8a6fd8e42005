"""The seed programs of a run: those of its kinds' languages, or the user's own."""

from __future__ import annotations

from itertools import chain

from redqueen.config import GameConfig
from redqueen.records import Draft, Task
from redqueen.tasks.kinds import SeedError, languages

__all__ = ["AUTHOR", "OWN", "SeedError", "is_fixed", "seeds_of"]

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
