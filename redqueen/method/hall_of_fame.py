"""The hall of fame: frozen copies of past champions of both roles. What members and champions may be called.

Rosin and Belew 1997, "New methods for competitive coevolution", section 4.

In every evolution round the fittest member of each role that has played its burn-in enters as a copy; the member itself
goes on playing. The hall is bounded and keeps its champions spread over time: the first and the newest stay, and of
those between, the one leaves whose neighbours in time are closest together. A champion plays with the rating that it
entered with, which never moves, and it is never trained.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from redqueen.method.matchmaking import Match, numbered
from redqueen.method.rating import Rating
from redqueen.records import Role

# What members and champions may be called. Their names become those of folders, and words of command lines.

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}(@[0-9]{1,12})?")


def check_name(name: str) -> str:
    """Returns a name as a run writes it: `S3`, or `S3@40` of a champion. Raises ValueError if it is none."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"it names a member {name[:60]!r}: a name is a letter and up to 40 letters, digits, - or _; a champion's "
            "ends in @ and its step"
        )
    return name


MemberName = Annotated[str, AfterValidator(check_name)]
"""A name that comes from a file: pydantic checks it where a state is read, `row_of` where a row is."""


@dataclass(frozen=True, slots=True)
class Champion:
    """A member as it was at the end of a step.

    >>> champion_of("S3", "student", 40, Rating(30, 2), 24.0).name
    'S3@40'
    """

    name: MemberName
    """Member and step, e.g. "S3@40"; members' names have no @."""
    member: MemberName
    """The member that was copied. It may have been replaced since."""
    role: Role
    step: int
    """The step after which the copy was made."""
    rating: Rating
    """The rating at that time, which stays."""
    fitness: float | None
    """The fitness that it was ranked by when it entered."""


def champion_of(member: str, role: Role, step: int, rating: Rating, fitness: float | None) -> Champion:
    """Returns `member` as it is at the end of `step`."""
    return Champion(f"{member}@{step}", member, role, step, rating, fitness)


def add(hall: Sequence[Champion], newcomer: Champion, capacity: int) -> tuple[list[Champion], list[Champion]]:
    """Returns one role's hall with `newcomer`, oldest first, and the champions that leave it.

    Raises ValueError if `capacity` is below one, or the newcomer is not younger than everyone in the hall.
    """
    if capacity < 1:
        raise ValueError(f"a hall of fame needs a place, not {capacity}")
    if hall and newcomer.step <= hall[-1].step:
        raise ValueError(f"{newcomer.name} is not younger than {hall[-1].name}")
    staying = [*hall, newcomer]
    leaving: list[Champion] = []
    while len(staying) > capacity:
        # The first champion and the newest stay, so that the hall spans the whole run; with a single place only the
        # newest can. Among the others the gap that a departure leaves is smallest, and of equal gaps the oldest goes.
        candidates = range(1, len(staying) - 1) if capacity > 1 else range(len(staying) - 1)
        closest = min(candidates, key=lambda i: (staying[i + 1].step - staying[max(0, i - 1)].step, i))
        leaving.append(staying.pop(closest))
    return staying, leaving


def add_champion_matches(
    matches: Iterable[Match], hall: Iterable[Champion], fraction: float, step: int, rng: random.Random
) -> list[Match]:
    """Replaces a fraction of a step's matches with matches against past champions, which are drawn uniformly.

    With probability `fraction` a match (t, s) becomes two: t against a past student, and a past teacher against s. So
    every living member plays exactly as often as it was drawn to, and in expectation `fraction` of its games are
    against champions. `rng` serves this purpose only, so that the other matches do not depend on the fraction.

    Returns the matches in order, with new numbers. Until both roles have a champion, or with a fraction of 0, nothing
    is drawn and nothing changes.
    """
    champions = list(hall)
    teachers = [champion.name for champion in champions if champion.role == "teacher"]
    students = [champion.name for champion in champions if champion.role == "student"]
    if not fraction or not teachers or not students:
        return list(matches)
    pairs: list[tuple[str, str]] = []
    for match in matches:
        # One match becomes two, not one: if only one side met a champion, the other side would lose a game.
        if rng.random() < fraction:
            pairs.append((match.teacher, rng.choice(students)))
            pairs.append((rng.choice(teachers), match.student))
        else:
            pairs.append((match.teacher, match.student))
    return numbered(pairs, step)
