"""Fitness `held_out`: the score on a fixed set of tasks. External: it does not depend on the opponents."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from redqueen.league.standing import Standing


class Probe(Protocol):
    """Plays members on tasks that stay the same for the whole run."""

    def __call__(self, members: Sequence[str], /) -> Mapping[str, float]:
        """Each member's score in [0, 1]; one whose every attempt was lost to a fault of the machine is left out."""
        ...


def held_out(standing: Standing) -> float | None:
    """The latest probe's score, in [0, 1]; None before the first."""
    return standing.held_out
