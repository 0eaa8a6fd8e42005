"""The hall of fame: past champions of both roles, frozen as they were.

Rosin and Belew 1997, "New methods for competitive coevolution", section 4.

At each evolution the fittest member of a role that has played its burn-in enters as a copy; the member itself lives
on. The hall is bounded and keeps its champions spread over time: the first and the newest stay, and of those between,
the one goes whose neighbours in time are closest together. A champion plays with the rating it entered with, which
never moves, and is never trained.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from redqueen.league.matchmaking import Match
from redqueen.league.rating import Rating
from redqueen.records import Role


@dataclass(frozen=True, slots=True)
class Champion:
    """A member as it was at the end of a step. Its name is "S3@39": member S3 after step 39; members have no @.

    >>> champion("S3", "student", 39, Rating(30, 2), 24.0).name
    'S3@39'
    """

    name: str
    member: str
    role: Role
    step: int
    rating: Rating
    fitness: float | None


def champion(member: str, role: Role, step: int, rating: Rating, fitness: float | None) -> Champion:
    """`member` as it is at the end of `step`."""
    return Champion(f"{member}@{step}", member, role, step, rating, fitness)


def admit(hall: Sequence[Champion], newcomer: Champion, capacity: int) -> tuple[list[Champion], list[Champion]]:
    """One role's hall with `newcomer`, oldest first, and those who had to leave.

    Raises:
        ValueError: capacity is below one, or the newcomer is not younger than everyone in the hall.
    """
    if capacity < 1:
        raise ValueError(f"a hall of fame needs a place, not {capacity}")
    if hall and newcomer.step <= hall[-1].step:
        raise ValueError(f"{newcomer.name} is not younger than {hall[-1].name}")
    kept, gone = [*hall, newcomer], list[Champion]()
    while len(kept) > capacity:
        # with one place only the newest can stay
        inner = range(1, len(kept) - 1) if capacity > 1 else range(len(kept) - 1)
        closest = min(inner, key=lambda i: (kept[i + 1].step - kept[max(0, i - 1)].step, i))
        gone.append(kept.pop(closest))
    return kept, gone


def invite(matches: Iterable[Match], hall: Iterable[Champion], fraction: float, rng: random.Random) -> list[Match]:
    """Lets past champions into a step's matches.

    With probability `fraction` a match (t, s) becomes two: t against a past student and a past teacher against s. So
    every living member plays exactly as often as it was drawn to, and a fraction of its games, in expectation, is
    against the past. Champions are drawn uniformly. Until both roles have one, nothing changes.

    Args:
        matches: as drawn among the living.
        hall: champions of both roles.
        fraction: share of the living members' games that is against the past, in [0, 1]; 0 draws nothing.
        rng: a generator of its own purpose, so that the other matches do not depend on the fraction.

    Returns:
        The matches, in order, each split one replaced by its two.
    """
    champions = list(hall)
    teachers = [c.name for c in champions if c.role == "teacher"]
    students = [c.name for c in champions if c.role == "student"]
    if not fraction or not teachers or not students:
        return list(matches)
    invited: list[Match] = []
    for match in matches:
        if rng.random() < fraction:
            invited += [Match(match.teacher, rng.choice(students)), Match(rng.choice(teachers), match.student)]
        else:
            invited.append(match)
    return invited
