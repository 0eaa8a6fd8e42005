"""The seed queries and the reserved ones: patterns over several tables, with several databases each.

A user's file (`game.seeds=FILE`) has blocks separated by blank lines: `-- message`, the query, one line a database.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path

from redqueen.extras.sql.database import Cell, Database, Table
from redqueen.records import Draft
from redqueen.tasks.kinds.language import Half, halved, read_own

DATABASES = 6
"""The databases of a seed."""
IDENTITY = (
    "{'t': [('a', 'b'), (1, 'x'), (2, 'y')]}",
    "{'t': [('a', 'b')]}",
    "{'t': [('a', 'b'), (3, None)]}",
    "{'t': [('a', 'b'), (1, 'x'), (1, 'x')]}",
    "{'t': [('a', 'b'), (None, 'z'), (0, 'a'), (5, 'b')]}",
)
"""The databases of the query that gives a table as it is."""

_FORM = "A seed is a line `-- message`, a query, and lines with a database, e.g. {'t': [('a', 'b'), (1, 'x')]}"
_NULLS = 0.08
_VARIATIONS = 6
_RESERVED = 8
"""How often each pattern is used."""
# A table, its column of texts, its column of numbers, the texts; then another table that shares the texts' column.
_WORLDS = (
    ("pets", "name", "age", "ann bob max tom", "vets", "fee"),
    ("items", "kind", "price", "pen cup hat bag", "stock", "n"),
    ("sales", "shop", "n", "east west north south", "shops", "size"),
    ("games", "team", "score", "red blue green gold", "teams", "rank"),
    ("books", "author", "year", "lee roy kim sue", "prizes", "won"),
    ("trips", "city", "days", "rome oslo bern nice", "hotels", "stars"),
    ("t", "b", "a", "x y z w", "u", "c"),
)


def split_databases(text: str) -> tuple[str, tuple[str, ...]]:
    """Returns the query in a text and the databases below it; no database if another line is below one."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    first = next((number for number, line in enumerate(lines) if line.startswith("{")), len(lines))
    query = "\n".join(line for line in lines[:first] if line)
    databases = [line for line in lines[first:] if line]
    if not all(line.startswith("{") for line in databases):
        return query, ()
    return query, tuple(databases)


@cache
def seeds() -> tuple[Draft, ...]:
    """Returns all seed drafts, simple ones first. None of them has the shape of a reserved one."""
    return tuple(chain.from_iterable(_made("seeds.txt", _VARIATIONS)))


@cache
def reserved(half: Half | None = None) -> tuple[Draft, ...]:
    """Returns one half of the reserved drafts, or all. The halves have other patterns of equal difficulty."""
    # The file goes from simple to less simple patterns.
    return tuple(chain.from_iterable(halved(_made("reserved.txt", _RESERVED), half)))


def _made(file: str, variations: int) -> list[list[Draft]]:
    """Returns the drafts of each pattern in a file: a line with a message, one with a query, then a blank line."""
    text = (resources.files("redqueen.extras.sql") / file).read_text(encoding="utf-8")
    patterns = [pattern.splitlines() for pattern in text.strip().split("\n\n")]
    made: list[list[Draft]] = []
    for message, query in patterns:
        drafts = [_draft(message, query, number) for number in range(variations)]
        # Some variations of a pattern without constants are one query.
        made.append(list({draft.program: draft for draft in drafts}.values()))
    return made


def _draft(message: str, query: str, number: int) -> Draft:
    rng = random.Random(f"{query}\0{number}")
    table, label, value, words, other, count = _WORLDS[(rng.randrange(len(_WORLDS)) + number) % len(_WORLDS)]
    texts = words.split()
    low = rng.randint(1, 5)
    text = rng.choice(texts)
    parts = {"T": table, "x": label, "n": value, "U": other, "m": count, "s": text}
    parts |= {"k": str(low), "l": str(low + rng.randint(1, 3)), "c": text[0], "d": text[-1]}
    for key, part in parts.items():
        query = query.replace("{" + key + "}", part)
        message = message.replace("{" + key + "}", part)
    names = [(table, (label, value))] + ([(other, (label, count))] if other in re.findall(r"\w+", query) else [])
    databases = [_database(names, texts, rng, rows) for rows in (2, 3, 3, 4, 4, 2)[:DATABASES]]
    return Draft(query, tuple(databases), message)


def _database(names: Sequence[tuple[str, tuple[str, str]]], texts: Sequence[str], rng: random.Random, rows: int) -> str:
    tables: dict[str, Table] = {}
    for name, columns in names:
        made: list[tuple[Cell, ...]] = []
        for _ in range(rng.randint(max(1, rows - 1), rows)):
            number = None if rng.random() < _NULLS else rng.randint(0, 9)
            made.append((None if rng.random() < _NULLS else rng.choice(texts), number))
        tables[name] = Table(columns, tuple(made))
    return Database(tables).text()


def seeds_of(own: str | None) -> tuple[Draft, ...]:
    """Returns the seed drafts of a user's file, or the shipped ones. Raises SeedError."""
    return seeds() if own is None else read_own(Path(own), _parse_block, _FORM, "queries")


def _parse_block(block: str) -> Draft:
    """Reads one block of a user's file. Raises ValueError if a part is missing."""
    message, _, rest = block.strip("\n").partition("\n")
    query, databases = split_databases(rest)
    if not (message.startswith("--") and query and databases):
        raise ValueError(f"not a seed block: {block[:60]!r}")
    return Draft(query, databases, message.removeprefix("--").strip())
