"""Who met whom: solve rates and games of every teacher with every student."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from redqueen.runs.archive import queries
from redqueen.web.live_run import LiveRun


def matrix(run: LiveRun) -> dict[str, object]:
    """Returns the members in order of birth, the solve rates of each pair by kind, and its games."""
    with run.archive() as archive:
        members = archive.members()
        cells = queries.cells(archive)
        matches = archive.matches()
        champions = archive.champions()
    living = set(run.lines()[-1]["members"]) if run.lines() else set[str]()
    outcomes: dict[tuple[str, str], Counter[str]] = {}
    for match in matches:
        won = outcomes.setdefault((match.teacher, match.student), Counter())
        won[match.outcome or "none"] += 1
    games = [{"teacher": pair[0], "student": pair[1], "outcomes": counts} for pair, counts in outcomes.items()]
    everybody = [{"name": row.name, "role": row.role, "lives": row.name in living} for row in members]
    # Champions of the hall of fame play under names of their own; only those who did are shown.
    met = {match.teacher for match in matches} | {match.student for match in matches}
    everybody += [{"name": row.name, "role": row.role, "lives": False} for row in champions if row.name in met]
    return {
        "teachers": [each for each in everybody if each["role"] != "student"],
        "students": [each for each in everybody if each["role"] != "teacher"],
        "cells": [asdict(cell) for cell in cells],
        "games": games,
    }
