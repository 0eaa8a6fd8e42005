"""Who descends from whom: every member's life, read from a run's archive.

Steps are counted from 0, as in the archive; -1 is the start. Runs from before standings were recorded are read too:
their fitness is then mu - k sigma after each match, which is what they were selected by.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from redqueen.runs.directory import RunDirectory, RunError


@dataclass(frozen=True, slots=True)
class Life:
    """One member from birth to death, or to the last step played. A fitness of None is not known.

    Attributes:
        name, role: the member's.
        born, died: the steps at whose end it was born and replaced; died is None while it lives.
        operator, parents: how it was made, the fitter parent first; ("init", ()) at the start.
        victim: whose place it took; "" at the start.
        parent_fitness: each parent's when it was born: the fitness before.
        victim_fitness: of the one it replaced.
        first, first_rated: its own fitness when it was first known after a game, and the step: the fitness after.
        last: its own fitness at its death, or now.
        games: how many it has been rated for.
        distance, tries: from the nearest living member, and children drawn, where `league.min_distance` was set.
    """

    name: str
    role: str
    born: int
    died: int | None
    operator: str
    parents: tuple[str, ...]
    victim: str
    parent_fitness: tuple[float | None, ...]
    victim_fitness: float | None
    first: float | None
    first_rated: int | None
    last: float | None
    games: int
    distance: float | None
    tries: int | None


@dataclass(frozen=True, slots=True)
class _Standing:
    step: int
    games: int
    fitness: float | None


def lives(run: Path) -> list[Life]:
    """Everyone who ever lived in `run`, in order of birth. Raises RunError if there is no run or it left no archive."""
    directory = RunDirectory(run)
    k = directory.config().league.lcb
    if not directory.archive.exists():
        raise RunError(f"{run} has no archive (run.sqlite): nothing was trained here")
    with closing(sqlite3.connect(f"file:{directory.archive}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        members = db.execute("SELECT name, role, step, parents, operator FROM members ORDER BY step, rowid").fetchall()
        births = {row["child"]: dict(row) for row in db.execute("SELECT * FROM replacements")}
        standings = _standings(db, k)
    deaths = {row["victim"]: int(row["step"]) for row in births.values()}
    return [_life(row, births.get(row["name"], {}), deaths, standings.get(row["name"], [])) for row in members]


def last_step(run: Path) -> int:
    """The last step that was played, -1 before the first. Raises RunError as `lives`."""
    lines = RunDirectory(run).metrics()
    return int(lines[-1]["step"]) if lines else -1


def ancestors(found: Iterable[Life], name: str) -> list[Life]:
    """`name` and all it descends from, youngest first, each once."""
    by_name = {life.name: life for life in found}
    queue, family = [name], dict[str, Life]()
    while queue:
        life = by_name.get(queue.pop(0))
        if life is not None and life.name not in family:
            family[life.name] = life
            queue += life.parents
    return list(family.values())


def _life(row: sqlite3.Row, birth: Mapping[str, object], deaths: Mapping[str, int], standings: list[_Standing]) -> Life:
    # a probe may come later than the first game
    rated = [s for s in standings if s.games and s.fitness is not None]
    return Life(
        name=row["name"],
        role=row["role"],
        born=row["step"],
        died=deaths.get(row["name"]),
        operator=row["operator"],
        parents=tuple(json.loads(row["parents"])),
        victim=str(birth.get("victim", "")),
        parent_fitness=tuple(json.loads(str(birth.get("parent_fitness", "[]")))),
        victim_fitness=_number(birth.get("victim_fitness")),
        first=rated[0].fitness if rated else None,
        first_rated=rated[0].step if rated else None,
        last=rated[-1].fitness if rated else None,
        games=standings[-1].games if standings else 0,
        distance=_number(birth.get("distance")),
        tries=None if birth.get("distance") is None else int(str(birth["tries"])),
    )


def _number(value: object) -> float | None:
    return None if value is None else float(str(value))


def _standings(db: sqlite3.Connection, k: float) -> dict[str, list[_Standing]]:
    found: dict[str, list[_Standing]] = {}
    if db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'standings'").fetchone():
        for row in db.execute("SELECT step, member, games, fitness FROM standings ORDER BY step"):
            found.setdefault(row["member"], []).append(_Standing(row["step"], row["games"], row["fitness"]))
    early = min((s.step for own in found.values() for s in own), default=None)
    before: dict[str, list[_Standing]] = {}
    for row in db.execute("SELECT * FROM matches WHERE outcome IS NOT NULL ORDER BY step, rowid"):
        if early is not None and row["step"] >= early:
            break
        for role in ("teacher", "student"):
            own = before.setdefault(row[role], [])
            own.append(_Standing(row["step"], len(own) + 1, row[f"{role}_mu"] - k * row[f"{role}_sigma"]))
    return {name: before.get(name, []) + found.get(name, []) for name in before.keys() | found.keys()}
