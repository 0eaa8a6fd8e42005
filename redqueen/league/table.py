"""The league table: who is in the population, how each is rated, and where each came from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from redqueen.league.rating import Outcome, Rating, TrueSkill
from redqueen.league.selection import Standing
from redqueen.records import Role

AnyRole = Literal["teacher", "student", "both"]
_LETTERS: dict[AnyRole, str] = {"teacher": "T", "student": "S", "both": "A"}


@dataclass(frozen=True, slots=True)
class Member:
    """One member's standing and lineage. The single agent's role is "both"; it plays itself and is not rated."""

    name: str
    role: AnyRole
    born: int  # the step
    parents: tuple[str, ...] = ()
    operator: str = "init"
    rating: Rating = field(default_factory=Rating)
    wins: int = 0
    draws: int = 0
    losses: int = 0

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses


class Table:
    """The living members, in order of birth; names are never reused."""

    def __init__(self, members: Iterable[Member] = (), born: dict[str, int] | None = None) -> None:
        self.members = {member.name: member for member in members}
        self.born: dict[str, int] = dict(born or {})

    def enrol(self, role: AnyRole, step: int, parents: tuple[str, ...] = (), operator: str = "init") -> Member:
        """A new member with a fresh rating."""
        number = self.born.get(role, 0)
        self.born[role] = number + 1
        member = Member(f"{_LETTERS[role]}{number}", role, step, parents, operator)
        self.members[member.name] = member
        return member

    def remove(self, name: str) -> None:
        del self.members[name]

    def role(self, role: Role) -> dict[str, Rating]:
        """The ratings of those who can play `role`."""
        return {m.name: m.rating for m in self.members.values() if m.role in (role, "both")}

    def standings(self, role: Role) -> list[Standing]:
        """What selection looks at."""
        return [Standing(m.name, m.rating, m.games) for m in self.members.values() if m.role == role]

    def record(self, teacher: str, student: str, result: Outcome, trueskill: TrueSkill) -> None:
        """Rates one game. A member that played itself is left as it is."""
        if teacher == student:
            return
        a, b = self.members[teacher], self.members[student]
        rating_a, rating_b = trueskill.rate(a.rating, b.rating, result)
        self.members[teacher] = _played(replace(a, rating=rating_a), result, "teacher")
        self.members[student] = _played(replace(b, rating=rating_b), result, "student")


def _played(member: Member, result: Outcome, role: Role) -> Member:
    if result == "draw":
        return replace(member, draws=member.draws + 1)
    if result == role:
        return replace(member, wins=member.wins + 1)
    return replace(member, losses=member.losses + 1)
