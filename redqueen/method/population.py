"""The population: its members with their ratings and lineage, and the hall of fame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from redqueen.method import hall_of_fame
from redqueen.method.games import SolveRates
from redqueen.method.hall_of_fame import Champion, MemberName
from redqueen.method.rating import GameResult, Rating, TrueSkill
from redqueen.records import Role

AnyRole = Literal["teacher", "student", "both"]
_LETTERS: dict[AnyRole, str] = {"teacher": "T", "student": "S", "both": "A"}

# How many matches `mean_reward` and `learnability` look back on. Members and their opponents change, so old ones
# mislead: the paper reports that a child needs 10 to 20 updates to reach its parent's level, and a longer mean would
# mostly describe the time before.
RECENT = 10


@dataclass(frozen=True, slots=True)
class Member:
    """One member's lineage, rating and recent games: the matches that moved its rating.

    >>> Member("S0", "student", born=0).games
    0
    """

    name: MemberName
    role: AnyRole
    """The single agent's role is "both"; it plays itself and is not rated."""
    born: int
    """The step after which it was born; 0 for those that start the run."""
    parents: tuple[MemberName, ...] = ()
    """Fitter first; empty for those that start the run."""
    operator: str = "init"
    """The operator that made it; "init" for those that start the run."""
    rating: Rating = field(default_factory=Rating)
    """After its last game."""
    wins: int = 0
    draws: int = 0
    losses: int = 0
    rewards: tuple[float, ...] = ()
    """Its mean reward in each of its latest matches, oldest first."""
    learnability: tuple[float, ...] = ()
    """The learnability of each of its latest matches, in [0, 1], oldest first (`fitness.game_learnability`)."""
    held_out: float | None = None
    """Its latest score on the held-out tasks, in [0, 1]; None before the first."""
    practised: int = 0
    """Matches against the task bank, of students alone. They are not games, because no member is rated."""

    @property
    def games(self) -> int:
        """How many games it has played since its birth."""
        return self.wins + self.draws + self.losses

    @property
    def matches(self) -> int:
        """How many games and rounds of practice it has played: what a burn-in counts."""
        return self.games + self.practised


class Population:
    """The living members, in order of birth, and the hall of fame. A name is never used again."""

    def __init__(
        self,
        members: Iterable[Member] = (),
        born: dict[str, int] | None = None,
        champions: Iterable[Champion] = (),
        recent_matches: Iterable[SolveRates] = (),
    ) -> None:
        """`born` counts the births of each role so far; `recent_matches` are those that par is computed from."""
        self.members = {member.name: member for member in members}
        self.born: dict[str, int] = dict(born or {})
        self.hall_of_fame = {champion.name: champion for champion in champions}
        self.recent_matches = list(recent_matches)

    def add_member(
        self,
        role: AnyRole,
        step: int,
        parents: tuple[str, ...] = (),
        operator: str = "init",
        rating: Rating | None = None,
    ) -> Member:
        """Adds and returns a member with a new name; its rating is the first population's if none is given."""
        # Births are counted, not members: a name used twice would mix the records of two members.
        number = self.born.get(role, 0)
        self.born[role] = number + 1
        member = Member(f"{_LETTERS[role]}{number}", role, step, parents, operator, rating or Rating())
        self.members[member.name] = member
        return member

    def remove_member(self, name: str) -> None:
        """Removes a living member. Raises KeyError if `name` is not alive."""
        del self.members[name]

    def add_champion(self, champion: Champion, capacity: int) -> list[Champion]:
        """Adds `champion` to the hall of fame, which has `capacity` places for its role.

        Returns the champions that leave it.
        """
        same_role = [other for other in self.hall_of_fame.values() if other.role == champion.role]
        _, leaving = hall_of_fame.add(same_role, champion, capacity)
        self.hall_of_fame[champion.name] = champion
        for leaver in leaving:
            del self.hall_of_fame[leaver.name]
        return leaving

    def members_of(self, role: AnyRole) -> list[Member]:
        """Returns the members whose role is `role`: those that are ranked against each other."""
        return [member for member in self.members.values() if member.role == role]

    def players(self, role: Role) -> dict[str, Rating]:
        """Returns the ratings of those who can play `role`: its members and the single agent."""
        return {member.name: member.rating for member in self.members.values() if member.role in (role, "both")}

    def ratings(self) -> dict[str, Rating]:
        """Returns the ratings of everyone who may have played: members and champions."""
        return {who.name: who.rating for who in (*self.members.values(), *self.hall_of_fame.values())}

    def add_matches(self, matches: Sequence[SolveRates], window: int) -> None:
        """Adds a step's matches to the recent ones, of which the latest `window` stay, but at least the whole step.

        Matches without a solved task are left out: they say nothing about the level that par stands for.
        """
        solved = [match for match in matches if any(map(any, match.values()))]
        self.recent_matches = [*self.recent_matches, *solved][-max(window, len(solved)) :]

    def rate_game(self, teacher: str, student: str, result: GameResult, trueskill: TrueSkill) -> None:
        """Rates one game. A champion's rating stays, and so does the rating of a member that played itself."""
        # A game against itself says nothing about a member's skill.
        if teacher == student:
            return
        # Both new ratings follow from both old ones, so neither is stored before both are computed.
        ratings = trueskill.rate(self._rating(teacher), self._rating(student), result)
        roles: tuple[Role, Role] = ("teacher", "student")
        for name, role, rating in zip((teacher, student), roles, ratings, strict=True):
            if name in self.members:
                self.members[name] = _counted(replace(self.members[name], rating=rating), result, role)

    def record_game(self, name: str, reward: float | None, learnability: float | None) -> None:
        """Records the mean reward and the learnability of a match that `name` played; None is not recorded.

        Champions are frozen, so nothing is recorded for them.
        """
        if name not in self.members:
            return
        member = self.members[name]
        self.members[name] = replace(
            member,
            rewards=_latest(member.rewards, reward),
            learnability=_latest(member.learnability, learnability),
        )

    def count_practice(self, name: str) -> None:
        """Counts a match of a living member against the task bank."""
        member = self.members[name]
        self.members[name] = replace(member, practised=member.practised + 1)

    def set_held_out(self, scores: Mapping[str, float]) -> None:
        """Records held-out scores by member name. Raises KeyError if a name is not alive."""
        for name, score in scores.items():
            self.members[name] = replace(self.members[name], held_out=score)

    def _rating(self, name: str) -> Rating:
        return self.members[name].rating if name in self.members else self.hall_of_fame[name].rating


def _latest(values: tuple[float, ...], value: float | None) -> tuple[float, ...]:
    return values if value is None else (*values, value)[-RECENT:]


def _counted(member: Member, result: GameResult, role: Role) -> Member:
    if result == "draw":
        return replace(member, draws=member.draws + 1)
    if result == role:
        return replace(member, wins=member.wins + 1)
    return replace(member, losses=member.losses + 1)
