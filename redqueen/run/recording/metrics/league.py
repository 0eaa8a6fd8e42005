"""Metrics: ratings, births and the hall of fame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

from redqueen.run.recording.metrics.metric import (
    CountedStep,
    Curves,
    CurvesOf,
    Line,
    MembersOf,
    MetricChart,
    Metrics,
    column,
    with_curves,
)

METRICS = Metrics("league")

_ROLES = (("teacher", "teachers"), ("student", "students"), ("both", "single agent"))


def _living(role: str) -> MembersOf:
    """Returns what takes the living members of a role from each line."""

    def living(lines: Sequence[Line], name: str) -> list[list[str]]:
        each: list[Mapping[str, Mapping[str, Any]]] = [line.get(name) or {} for line in lines]
        return [[member for member, values in members.items() if values["role"] == role] for members in each]

    return living


def _of_members(members: MembersOf, key: str) -> CurvesOf:
    """Returns the curves of a value of members, by name; a gap where one does not live."""
    return lambda lines, name: {
        member: column(lines, name, member, key) for member in with_curves(members(lines, name))
    }


def _ratings(role: str, plural: str) -> tuple[MetricChart, MetricChart]:
    key = plural.replace(" ", "-")
    living = _living(role)
    return (
        MetricChart(
            f"ratings-{key}",
            f"Ratings: {plural}",
            "TrueSkill's mu of each living member. Ratings are relative to the opponents of the day: if both sides "
            "improve alike, they stand still.",
            _of_members(living, "mu"),
            "rating",
            limits=(None, None),
            members=living,
        ),
        MetricChart(
            f"sigma-{key}",
            f"Uncertainty of the ratings: {plural}",
            "TrueSkill's sigma of each living member; a newborn starts uncertain.",
            _of_members(living, "sigma"),
            "sigma",
            members=living,
        ),
    )


@METRICS.add("", *chain.from_iterable(_ratings(role, plural) for role, plural in _ROLES))
def members(step: CountedStep) -> dict[str, dict[str, Any]]:
    """By living member, after the births: `role`, `mu`, `sigma`, `fitness`, `record` (games won, drawn, lost), `born`
    (after which step; 0: the first population), `parents`.
    """
    members: dict[str, dict[str, Any]] = {}
    for standing in step.record.population:
        member = standing.member
        members[member.name] = {
            "role": member.role,
            "mu": member.rating.mu,
            "sigma": member.rating.sigma,
            "fitness": standing.fitness,
            "record": [member.wins, member.draws, member.losses],
            "born": member.born,
            "parents": list(member.parents),
        }
    return members


@METRICS.add("matches")
def matches(step: CountedStep) -> list[dict[str, Any]]:
    """Each match: `teacher`, `student`, `score` ([solve rate less par](../ALGORITHM.md#games)), `outcome` (`student`,
    `draw`, `teacher`; null without a game).
    """
    return [
        {"teacher": game.match.teacher, "student": game.match.student, "score": game.score, "outcome": game.outcome}
        for game in step.record.games
    ]


def _births_so_far(lines: Sequence[Line], name: str) -> Curves:
    """Returns how many members each operator has made since the start."""
    operators = [[birth["operator"] for birth in line.get(name) or []] for line in lines]
    return {
        operator: tuple(accumulate(step.count(operator) for step in operators))
        for operator in sorted(set(chain(*operators)))
    }


@METRICS.drawn(
    "births",
    "births",
    "Births so far",
    "Members that were born up to the end of the step, by the operator that made them.",
    _births_so_far,
)
def replacements(step: CountedStep) -> list[dict[str, Any]]:
    """Each birth: `victim`, its `age` in steps and `games`, `child`, `parents`, `operator`, `tie` (a member that stayed
    had the victim's fitness); with `evolution.min_distance` also `distance`, `tries`.
    """
    births: list[dict[str, Any]] = []
    for birth in step.record.births:
        line: dict[str, Any] = {
            "victim": birth.victim,
            "child": birth.child,
            "parents": list(birth.parents),
            "operator": birth.operator,
            "age": birth.victim_age,
            "games": birth.victim_games,
            "tie": birth.tie,
        }
        if birth.distance is not None:
            line["distance"] = birth.distance
            line["tries"] = birth.tries
        births.append(line)
    return births


def _champions(lines: Sequence[Line], name: str) -> Curves:
    counts = tuple(len(line[name]) if name in line else None for line in lines)
    # Where all are zero, the run has no hall of fame.
    return {"champions": counts} if any(counts) else {}


@METRICS.drawn(
    "champions",
    "hall-of-fame",
    "Champions in the hall of fame",
    "Frozen copies of former best members that the living ones still play against.",
    _champions,
)
def hall(step: CountedStep) -> list[str]:
    """Champions in the hall of fame."""
    return list(step.record.hall_of_fame)
