"""Generators of the library reasoning-gym as kinds of tasks, for students alone (`redqueen[gym]`).

There is a kind for each generator and its settings, made when it is named: `reasoning_gym:chain_sum:max_terms=3`.
"""

from redqueen.extras.reasoning_gym.answering import Answering
from redqueen.extras.reasoning_gym.generator import Generator, generator_of

__all__ = ["KINDS", "Answering", "Generator", "made_kind"]

KINDS: tuple[Answering, ...] = ()
"""None has a fixed name."""


def made_kind(name: str) -> Answering | None:
    """Returns the kind of this name, None if it is not one of a generator. Nothing is imported for it."""
    generator = generator_of(name)
    return None if generator is None else Answering(name, generator)
