"""Who descends from whom: every member's life, from a run's archive.

Steps are counted from 0, as in the archive; -1 is the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from redqueen.runs.archive.reader import ArchiveReader
from redqueen.runs.archive.rows import MemberRow, ReplacementRow, StandingRow
from redqueen.runs.directory import RunDirectory


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
        distance, tries: from the nearest living member, and children drawn, where `evolution.min_distance` was set.
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


def lives(run: Path) -> list[Life]:
    """Returns every member that ever lived in `run`, in order of birth.

    Raises RunError if there is no such run or it left no archive.
    """
    directory = RunDirectory(run)
    directory.config()
    with ArchiveReader(directory.archive) as archive:
        members = archive.members()
        births = {row.child: row for row in archive.replacements()}
        standings: dict[str, list[StandingRow]] = {}
        for row in archive.standings():
            standings.setdefault(row.member, []).append(row)
    deaths = {row.victim: row.step for row in births.values()}
    return [_life(row, births.get(row.name), deaths.get(row.name), standings.get(row.name, [])) for row in members]


def last_step(run: Path) -> int:
    """Returns the last step that was played, -1 before the first. Raises RunError as `lives` does."""
    lines = RunDirectory(run).metrics()
    return int(lines[-1]["step"]) if lines else -1


def ancestors(members: Iterable[Life], name: str) -> list[Life]:
    """Returns `name` and all it descends from, breadth first from the member itself, each once."""
    by_name = {life.name: life for life in members}
    queue = [name]
    family: dict[str, Life] = {}
    while queue:
        life = by_name.get(queue.pop(0))
        if life is not None and life.name not in family:
            family[life.name] = life
            queue += life.parents
    return list(family.values())


def _life(member: MemberRow, birth: ReplacementRow | None, died: int | None, standings: list[StandingRow]) -> Life:
    # The held-out fitness is measured every few steps, so it may be known only some games after the first.
    rated = [s for s in standings if s.games and s.fitness is not None]
    return Life(
        name=member.name,
        role=member.role,
        born=member.step,
        died=died,
        operator=member.operator,
        parents=member.parents,
        victim=birth.victim if birth else "",
        parent_fitness=birth.parent_fitness if birth else (),
        victim_fitness=birth.victim_fitness if birth else None,
        first=rated[0].fitness if rated else None,
        first_rated=rated[0].step if rated else None,
        last=rated[-1].fitness if rated else None,
        games=standings[-1].games if standings else 0,
        distance=birth.distance if birth else None,
        tries=birth.tries if birth and birth.distance is not None else None,
    )
