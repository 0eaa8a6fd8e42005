"""The short views: the evaluation, and who met whom."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, cast

from redqueen.base.plain_files import parse_json, read_plain
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.members import some_of
from redqueen.store.archive import totals
from redqueen.store.directory import RunError


def evaluation(run: LiveRun) -> dict[str, object]:
    """Returns the table that `redqueen eval` left in the run's folder, or None and how to make one.

    Raises RunError if it cannot be read.
    """
    run.directory.check_links()
    path = run.directory.evaluation
    try:
        table: Any = parse_json(read_plain(path))
        if not isinstance(table, dict):
            raise ValueError("it holds no table")
    except FileNotFoundError:
        return {"evaluation": None, "command": f"redqueen eval {run.directory.path} base"}
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path} ({error}): remove it and evaluate again") from error
    return {"evaluation": cast(Mapping[str, Any], table), "command": ""}


def matrix(run: LiveRun) -> dict[str, object]:
    """Returns the members in order of birth, the solve rates of each pair by kind, and its games."""
    with run.archive() as archive:
        members = archive.members()
        cells = totals.cells(archive)
        outcomes = totals.outcomes(archive)
        champions = archive.champions()
    newest = run.newest()
    living = set(newest["members"]) if newest else set[str]()
    games = [{"teacher": pair[0], "student": pair[1], "outcomes": counts} for pair, counts in outcomes.items()]
    everybody = [{"name": row.name, "role": row.role, "lives": row.name in living} for row in members]
    # Champions of the hall of fame play under names of their own; only those who did are shown.
    met = set(chain.from_iterable(outcomes))
    everybody += [{"name": row.name, "role": row.role, "lives": False} for row in champions if row.name in met]
    return {
        "teachers": [member for member in everybody if member["role"] != "student"],
        "students": [member for member in everybody if member["role"] != "teacher"],
        "cells": [some_of(cell, "teacher", "student", "kind", "tasks", "rho") for cell in cells],
        "games": games,
    }
