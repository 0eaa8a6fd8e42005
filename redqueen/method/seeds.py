"""The seed programs of a run: those of its kinds' languages, or the user's own."""

from __future__ import annotations

from itertools import chain

from redqueen.config import GameConfig
from redqueen.records import Draft
from redqueen.tasks.kinds import SeedError, languages

__all__ = ["AUTHOR", "SeedError", "seeds_of"]

AUTHOR = "seed"


def seeds_of(game: GameConfig) -> tuple[Draft, ...]:
    """Returns a run's seed drafts: those of the file `game.seeds`, or the shipped ones. Raises SeedError."""
    return tuple(chain.from_iterable(language.seeds(game.seeds) for language in languages(game.kinds)))
