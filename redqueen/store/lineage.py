"""Who descends from whom: every member's life, from a run's archive.

Steps are counted from 1; 0 is the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from redqueen.records import ROLES
from redqueen.store.archive import queries
from redqueen.store.archive.queries import Career
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import MemberRow, ReplacementRow
from redqueen.store.directory import RunDirectory, RunError
from redqueen.store.files import quoted

MOST_MEMBERS = 20_000
"""A family of more takes minutes and gigabytes, and is no picture that a person can read."""


@dataclass(frozen=True, slots=True)
class Life:
    """One member from birth to death, or to the last step played. A fitness of None is not known."""

    name: str
    role: str
    born: int
    """The step at whose end it was born; 0 at the start."""
    died: int | None
    """The step at whose end it was replaced; None while it lives."""
    age: int
    """The steps that it lived, up to its death or to the last step played."""
    operator: str
    """The operator that made it; "init" at the start."""
    parents: tuple[str, ...]
    """The fitter parent first; empty at the start."""
    victim: str
    """The member whose place it took; "" at the start."""
    parent_fitness: tuple[float | None, ...]
    """Each parent's fitness when this member was born: the fitness before."""
    victim_fitness: float | None
    """The fitness of the member that it replaced."""
    first: float | None
    """Its fitness when that was first known after a game: the fitness after."""
    first_rated: int | None
    """The step at whose end `first` was known."""
    last: float | None
    """Its fitness at its death, or now."""
    games: int
    """The number of games that it has been rated for."""
    distance: float | None
    """Distance to the nearest living member at birth; None unless `evolution.min_distance` was set."""
    tries: int | None
    """Children that were drawn until one was far enough away; None unless `evolution.min_distance` was set."""


def lives(run: Path) -> list[Life]:
    """Returns every member that ever lived in `run`, in order of birth.

    Raises RunError if there is no such run or it left no archive.
    """
    directory = RunDirectory(run)
    directory.config()
    with ArchiveReader(directory.archive) as archive:
        return lives_in(archive)


def lives_in(archive: ArchiveReader) -> list[Life]:
    """Returns every member that ever lived in the run of an open archive, in order of birth.

    Raises RunError if there are more than `MOST_MEMBERS`.
    """
    ((count,),) = archive.select("SELECT count(*) FROM members")
    if count > MOST_MEMBERS:
        raise RunError(
            f"{archive.path} has {count:,} members, and a family of more than {MOST_MEMBERS:,} is not drawn or listed: "
            f'read the table with SQL, e.g. sqlite3 {quoted(archive.path)} "SELECT * FROM members LIMIT 9"'
        )
    members = archive.every(MemberRow)
    births = {row.child: row for row in archive.every(ReplacementRow)}
    careers = queries.careers(archive)
    now = queries.last_standing(archive)
    # A name is never used twice, so every birth has one victim and every member dies at most once.
    deaths = {row.victim: row.step for row in births.values()}
    return [
        # A newborn has not stood in the league yet.
        _life(row, births.get(row.name), deaths.get(row.name), careers.get(row.name, Career()), now)
        for row in members
    ]


def last_step(run: Path) -> int:
    """Returns the last step that was played, 0 before the first. Raises RunError as `lives` does."""
    lines = RunDirectory(run).metrics()
    return int(lines[-1]["step"]) if lines else 0


def ancestors(members: Iterable[Life], name: str) -> list[Life]:
    """Returns the member and all its ancestors, breadth first, each once."""
    by_name = {life.name: life for life in members}
    # A family tree is no tree: two lines meet again in a common ancestor, who is listed once.
    queue = [name]
    family: dict[str, Life] = {}
    while queue:
        life = by_name.get(queue.pop(0))
        if life is not None and life.name not in family:
            family[life.name] = life
            queue += life.parents
    return list(family.values())


def _life(member: MemberRow, birth: ReplacementRow | None, died: int | None, career: Career, now: int) -> Life:
    return Life(
        name=member.name,
        role=member.role,
        born=member.step,
        died=died,
        age=(now if died is None else died) - member.step,
        operator=member.operator,
        parents=member.parents,
        victim=birth.victim if birth else "",
        parent_fitness=birth.parent_fitness if birth else (),
        victim_fitness=birth.victim_fitness if birth else None,
        **asdict(career),
        distance=birth.distance if birth else None,
        tries=birth.tries if birth and birth.distance is not None else None,
    )


def check_name(directory: RunDirectory, name: str) -> None:
    """Raises RunError if no member of this name ever lived in a run."""
    names = members_to_name(directory)
    if name.casefold() in {candidate.casefold() for candidate in names}:
        return
    if any(character in name for character in " \n(#="):
        # The commonest way to forget the member.
        raise RunError(
            f"{name.splitlines()[0]!r} is a question, where the name of a member is expected: write one of "
            f"{', '.join(names)} before it"
        )
    raise RunError(f"no member '{name}' ever lived in {directory.path}: choose one of {', '.join(names)}")


def members_to_name(directory: RunDirectory) -> list[str]:
    """Returns the names that a member of a run may be called by: its own, and those of the best of each role."""
    every = lives(directory.path)
    roles = [role for role in ROLES if any(life.role in (role, "both") for life in every)]
    return [*(life.name for life in every), *(f"best-{role}" for role in reversed(roles))]


def kept_step(directory: RunDirectory, name: str, step: int | None) -> int:
    """Returns the step of the checkpoint to take a member from: `step`, or the latest that has it.

    `name` is a member's name in any case, or "best-student" or "best-teacher". Raises RunError if there is no such run
    or member, or no checkpoint that has it.
    """
    wanted = name.casefold()
    if wanted in {f"best-{role}" for role in ROLES}:
        directory.config()
        return directory.kept(step)
    check_name(directory, name)
    life = next(life for life in lives(directory.path) if life.name.casefold() == wanted)
    return _step_of(life, directory, step)


def _step_of(life: Life, directory: RunDirectory, step: int | None) -> int:
    """Returns the checkpoint to take a member from. Raises RunError if none that is kept has it."""
    # A member that is born at the end of step b is in the checkpoints from b on, and one that is replaced
    # at the end of step d in those before d.
    saved = directory.saved()
    having = [
        saved_step for saved_step in saved if saved_step >= life.born and (life.died is None or saved_step < life.died)
    ]
    if step is None and having:
        return having[-1]
    if step in having:
        return step
    if having:
        choice = f"{life.name} is in the checkpoints after step {', '.join(map(str, having))}: choose one with --step"
        raise RunError(f"{life.name} is not in a checkpoint after step {step}. {choice}")
    lived = "" if life.died is None else f" was replaced after step {life.died}, and"
    raise RunError(
        f"{life.name}{lived} is in no checkpoint that {directory.path} keeps: train with run.keep_every=1 to keep all"
    )
