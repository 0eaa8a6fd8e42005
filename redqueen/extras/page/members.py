"""The league table, the family tree, and the life of one member."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from redqueen.extras.page.live_run import LiveRun, UnknownError
from redqueen.store.archive import queries
from redqueen.store.archive.queries import Sort, TaskQuery
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import ChampionRow
from redqueen.store.lineage import Life, lives_in

_SHOWN = 5
"""How many best and worst tasks of a member are shown."""


_UNRATED = {"mu": None, "sigma": None, "record": None}


def league(run: LiveRun) -> dict[str, object]:
    """Returns every member that ever lived: in each role the living first, the fittest on top."""
    with run.archive() as archive:
        everybody = lives_in(archive)
        rated = _rated(archive, run)
        champions = archive.every(ChampionRow)
    ranked = sorted(everybody, key=lambda life: (life.role != "teacher", life.died is not None, -_fitness(life)))
    return {
        "members": [{**asdict(life), **rated.get(life.name, _UNRATED)} for life in ranked],
        "champions": [asdict(champion) for champion in champions],
    }


def tree(run: LiveRun) -> dict[str, object]:
    """Returns every member's life in order of birth, and the last step played."""
    with run.archive() as archive:
        everybody = lives_in(archive)
    newest = run.newest()
    return {"members": [asdict(life) for life in everybody], "steps": newest["step"] if newest else 0}


def member(run: LiveRun, name: str) -> dict[str, object]:
    """Returns one member's life. Raises UnknownError if there never was such a member."""
    with run.archive() as archive:
        everybody = lives_in(archive)
        by_name = {life.name: life for life in everybody}
        if name not in by_name:
            raise UnknownError(f"no member '{name}' ever lived in this run")
        life = by_name[name]
        standings = queries.standings_of(archive, name)
        games = queries.matches_of(archive, name)
        rated = _rated(archive, run)
        best = _tasks(archive, life, best=True)
        worst = _tasks(archive, life, best=False)
    return {
        "life": {**asdict(life), **rated.get(name, _UNRATED)},
        "children": [child.name for child in everybody if name in child.parents],
        "successor": next((successor.name for successor in everybody if successor.victim == name), None),
        "rating": [some_of(standing, "step", "mu", "sigma", "fitness") for standing in standings],
        "games": [some_of(match, "step", "teacher", "student", "outcome", "score") for match in games],
        "best": best,
        "worst": worst,
    }


def _tasks(archive: ArchiveReader, life: Life, *, best: bool) -> list[dict[str, object]]:
    """Returns the valid tasks that went best, or worst, for a member.

    For a teacher that goes by its reward, for a student by the solve rate.
    """
    sort: Sort = "rho" if life.role == "student" else "reward"
    wanted = TaskQuery(student=life.name) if life.role == "student" else TaskQuery(teacher=life.name)
    lines = queries.find(archive, wanted, sort, descending=best, limit=_SHOWN, offset=0)
    return [asdict(line) for line in lines]


def _rated(archive: ArchiveReader, run: LiveRun) -> dict[str, dict[str, object]]:
    """Returns what everybody's games came to: the last rating, and the `record` of games won, drawn and lost."""
    # metrics.jsonl knows the ratings of newborns, who have played no game. It no longer has those that were replaced at
    # the step's end, but the archive has their games.
    newest = run.newest()
    newborns = newest["members"] if newest else {}
    ratings = {name: (now["mu"], now["sigma"]) for name, now in newborns.items()} | queries.last_ratings(archive)
    won: Counter[str] = Counter()
    drawn: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for (teacher, student), games in queries.outcomes(archive).items():
        # A single agent meets itself, which is no game.
        if teacher == student:
            continue
        won[teacher] += games["teacher"]
        won[student] += games["student"]
        lost[teacher] += games["student"]
        lost[student] += games["teacher"]
        drawn[teacher] += games["draw"]
        drawn[student] += games["draw"]
    rated: dict[str, dict[str, object]] = {}
    for name, (mu, sigma) in ratings.items():
        rated[name] = {"mu": mu, "sigma": sigma, "record": (won[name], drawn[name], lost[name])}
    return rated


def _fitness(life: Life) -> float:
    return float("-inf") if life.last is None else life.last


def some_of(row: object, *names: str) -> dict[str, object]:
    """Returns these fields of a row. A long run has tens of thousands of rows, and `asdict` copies every field."""
    return {name: getattr(row, name) for name in names}
