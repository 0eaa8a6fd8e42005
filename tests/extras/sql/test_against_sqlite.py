"""What the jail gives for a query, SQLite alone gives too."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from redqueen.extras.sql.database import Database, Table, read_rows
from redqueen.extras.sql.language import SQL
from redqueen.jail import Job, Sandbox, to_literal
from tests.extras.sql.random_queries import Writer, database, plain


def compared(sandbox: Sandbox, count: int, seed: int) -> Counter[str]:
    """Returns how `count` admitted queries came out, and why others were refused. A difference is an AssertionError."""
    rng = random.Random(seed)
    asked: list[tuple[str, str, str]] = []
    jobs: list[Job] = []
    outcomes: Counter[str] = Counter()
    while len(jobs) < count:
        query, given = Writer(rng).query(), database(rng)
        job = SQL.job(query, (given.text(),))
        if isinstance(job, Job):
            asked.append((query, given.text(), to_literal(plain(query, given))))
            jobs.append(job)
        else:
            outcomes[f"refused: {job.detail}"] += 1
    for (query, given, expected), outcome in zip(asked, sandbox.run(jobs), strict=True):
        if outcome.status != "ok":
            outcomes[f"{outcome.status}: {outcome.detail}"] += 1
        else:
            outcomes["equal"] += 1
            assert outcome.outputs[0] == expected, (query, given)
            outcomes["with rows"] += len(read_rows(expected)) > 0
    return outcomes


@pytest.mark.slow
def test_two_hundred_drawn_queries_give_what_sqlite_gives(sql_sandbox: Sandbox) -> None:
    outcomes = compared(sql_sandbox, 200, 0)
    assert outcomes["equal"] > 150
    assert outcomes["with rows"] > 80


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, b AS a FROM t ORDER BY a",
        "SELECT a AS b, b AS a FROM t ORDER BY a",
        "SELECT a AS b, b AS c FROM t ORDER BY b",
        "SELECT a, b FROM t ORDER BY b",
    ],
)
def test_order_by_takes_a_name_for_an_alias_first(sql_sandbox: Sandbox, query: str) -> None:
    given = Database({"t": Table(("a", "b"), ((1, 9), (2, 8), (3, 7)))})
    job = SQL.job(query, (given.text(),))
    assert isinstance(job, Job)
    (outcome,) = sql_sandbox.run([job])
    assert outcome.outputs == (to_literal(plain(query, given)),)
