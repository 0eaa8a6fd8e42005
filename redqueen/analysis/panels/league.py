"""Panels: ratings, births and the hall of fame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

from redqueen.analysis.panels.panel import Curves, Line, Panel, each, names, panel


def league(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels of the section "league"."""
    note = "Ratings are relative to the opponents of the day: if both sides improve alike, they stand still."
    made: list[Panel] = []
    for role, name in (("teacher", "teachers"), ("student", "students"), ("both", "single agent")):
        key = name.replace(" ", "-")
        made += [
            panel(
                lines,
                f"ratings-{key}",
                "league",
                f"Ratings: {name}",
                "rating",
                f"TrueSkill's mu of each living member. {note}",
                _members(lines, role, "mu"),
            ),
            panel(
                lines,
                f"sigma-{key}",
                "league",
                f"Uncertainty of the ratings: {name}",
                "sigma",
                "TrueSkill's sigma of each living member; a newborn starts uncertain.",
                _members(lines, role, "sigma"),
                low=0,
            ),
        ]
    return [
        *made,
        panel(
            lines,
            "births",
            "league",
            "Births so far",
            "births",
            "Members that were born up to the end of the step, by the operator that made them.",
            _births(lines),
            low=0,
        ),
        panel(
            lines,
            "hall-of-fame",
            "league",
            "Champions in the hall of fame",
            "champions",
            "Frozen copies of former best members that the living ones still play against.",
            _if_any({"champions": each(lines, _champions)}),
            low=0,
        ),
    ]


def _members(lines: Sequence[Line], role: str, value: str) -> Curves:
    """Returns a value of each member of a role, by name; a gap where it does not live."""
    living: list[Mapping[str, Any]] = []
    for line in lines:
        members: Mapping[str, Any] = line.get("members") or {}
        living.append({name: member.get(value) for name, member in members.items() if member["role"] == role})
    return {name: tuple(step.get(name) for step in living) for name in names(living)}


def _births(lines: Sequence[Line]) -> Curves:
    """Returns how many members each operator has made since the start."""
    operators: list[list[str]] = []
    for line in lines:
        operators.append([birth["operator"] for birth in line.get("replacements") or []])
    made = sorted(set(chain.from_iterable(operators)))
    return {name: tuple(accumulate(step.count(name) for step in operators)) for name in made}


def _champions(line: Line) -> float | None:
    return len(line["hall"]) if "hall" in line else None


def _if_any(curves: Curves) -> Curves:
    """Returns the curves, or none where all their values are zero: the run does not have this."""
    return curves if any(value for column in curves.values() for value in column) else {}
