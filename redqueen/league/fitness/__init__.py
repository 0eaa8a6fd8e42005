"""What selection ranks by, by name. A fitness maps a standing to a number, higher is fitter, or to None: unknown.

An unknown fitness ranks below every known one.
"""

from collections.abc import Callable

from redqueen.league.fitness.held_out import Probe, held_out
from redqueen.league.fitness.lcb import lcb
from redqueen.league.fitness.learnability import game_learnability, learnability
from redqueen.league.fitness.mean_reward import mean_reward
from redqueen.league.standing import Standing

Fitness = Callable[[Standing], float | None]
FITNESS = ("lcb", "mean_reward", "learnability", "held_out")


def named_fitness(name: str, k: float = 3.0) -> Fitness:
    """The fitness called `name`; `k` is the number of sigmas in `lcb`. Raises ValueError for another name."""
    named: dict[str, Fitness] = {
        "lcb": lcb(k),
        "mean_reward": mean_reward,
        "learnability": learnability,
        "held_out": held_out,
    }
    if name not in named:
        raise ValueError(f"unknown fitness {name!r}; one of {', '.join(FITNESS)}")
    return named[name]


__all__ = [
    "FITNESS",
    "Fitness",
    "Probe",
    "game_learnability",
    "held_out",
    "lcb",
    "learnability",
    "mean_reward",
    "named_fitness",
]
