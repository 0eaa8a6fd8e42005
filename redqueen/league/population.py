"""The league table: who is in the population, how each is rated, and where each came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from redqueen.league.hall_of_fame import Champion, admit
from redqueen.league.rating import Outcome, Rating, TrueSkill
from redqueen.league.standing import Standing
from redqueen.records import Role

AnyRole = Literal["teacher", "student", "both"]
_LETTERS: dict[AnyRole, str] = {"teacher": "T", "student": "S", "both": "A"}

# Games that `mean_reward` and `learnability` look back on: members change, and so do their opponents. The paper reports
# 10 to 20 updates until a child is at its parent's level; the mean of more games would mostly tell of the time before.
RECENT = 10


@dataclass(frozen=True, slots=True)
class Member:
    """One member's standing and lineage. The single agent's role is "both"; it plays itself and is not rated.

    `rewards`, `contested` and `held_out` are as in `Standing`.
    """

    name: str
    role: AnyRole
    born: int  # the step
    parents: tuple[str, ...] = ()
    operator: str = "init"
    rating: Rating = field(default_factory=Rating)
    wins: int = 0
    draws: int = 0
    losses: int = 0
    rewards: tuple[float, ...] = ()
    contested: tuple[float, ...] = ()
    held_out: float | None = None

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    def standing(self) -> Standing:
        """What selection looks at."""
        return Standing(self.name, self.rating, self.games, self.rewards, self.contested, self.held_out)


class Table:
    """The living members, in order of birth, and the hall of fame; names are never reused."""

    def __init__(
        self, members: Iterable[Member] = (), born: dict[str, int] | None = None, hall: Iterable[Champion] = ()
    ) -> None:
        self.members = {member.name: member for member in members}
        self.born: dict[str, int] = dict(born or {})
        self.hall = {champion.name: champion for champion in hall}

    def enrol(self, role: AnyRole, step: int, parents: tuple[str, ...] = (), operator: str = "init") -> Member:
        """A new member with a fresh rating."""
        number = self.born.get(role, 0)
        self.born[role] = number + 1
        member = Member(f"{_LETTERS[role]}{number}", role, step, parents, operator)
        self.members[member.name] = member
        return member

    def remove(self, name: str) -> None:
        del self.members[name]

    def induct(self, champion: Champion, capacity: int) -> list[Champion]:
        """Takes `champion` into the hall of fame, of `capacity` places for its role; returns those who had to leave."""
        own = [c for c in self.hall.values() if c.role == champion.role]
        _, gone = admit(own, champion, capacity)
        self.hall[champion.name] = champion
        for leaver in gone:
            del self.hall[leaver.name]
        return gone

    def role(self, role: Role) -> dict[str, Rating]:
        """The ratings of those who can play `role`."""
        return {m.name: m.rating for m in self.members.values() if m.role in (role, "both")}

    def ratings(self) -> dict[str, Rating]:
        """The ratings of everyone who may have played: members and champions."""
        return {who.name: who.rating for who in (*self.members.values(), *self.hall.values())}

    def standings(self, role: Role) -> list[Standing]:
        """What selection looks at."""
        return [m.standing() for m in self.members.values() if m.role == role]

    def record(self, teacher: str, student: str, result: Outcome, trueskill: TrueSkill) -> None:
        """Rates one game. A champion's rating stays; a member that played itself is left as it is."""
        if teacher == student:
            return
        ratings = trueskill.rate(self._rating(teacher), self._rating(student), result)
        roles: tuple[Role, Role] = ("teacher", "student")
        for name, role, rating in zip((teacher, student), roles, ratings, strict=True):
            if name in self.members:
                self.members[name] = _played(replace(self.members[name], rating=rating), result, role)

    def note(self, name: str, rewards: float | None, contested: float | None) -> None:
        """Keeps what a game was like for `name`: its mean reward and its learnability, None where there was none.

        Champions are past caring and are skipped.
        """
        if name not in self.members:
            return
        member = self.members[name]
        self.members[name] = replace(
            member,
            rewards=_latest(member.rewards, rewards),
            contested=_latest(member.contested, contested),
        )

    def probed(self, scores: Mapping[str, float]) -> None:
        """Keeps held-out scores by member name."""
        for name, score in scores.items():
            self.members[name] = replace(self.members[name], held_out=score)

    def _rating(self, name: str) -> Rating:
        return self.members[name].rating if name in self.members else self.hall[name].rating


def _latest(values: tuple[float, ...], value: float | None) -> tuple[float, ...]:
    return values if value is None else (*values, value)[-RECENT:]


def _played(member: Member, result: Outcome, role: Role) -> Member:
    if result == "draw":
        return replace(member, draws=member.draws + 1)
    if result == role:
        return replace(member, wins=member.wins + 1)
    return replace(member, losses=member.losses + 1)
