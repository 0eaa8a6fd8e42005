"""What the text of a query is: its words, its tree, its sizes; and what it means on tables."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.extras.sql.database import read_database
from redqueen.extras.sql.grammar import Literal, Name, Operation, parse
from redqueen.extras.sql.language import SQL
from redqueen.extras.sql.meaning import MOST_BRACKETS, meaning
from redqueen.extras.sql.tokens import QueryError
from redqueen.jail import Job, Outcome, Sandbox
from redqueen.tasks.programs.complexity import complexity_of
from redqueen.tasks.programs.reached import reached_tree

TWO = read_database("{'t': [('a', 'b'), (1, 'x'), (7, None)], 'u': [('a', 'c'), (1, 5)]}")
WORDS = """
select from where group by having order limit join left on as and or not in is null like between case when then else end
cast exists union all distinct count sum max ( ) , . * + - / % = < || 1 2.5 'x' t a b u c integer
"""


def sql_of(query: str) -> str:
    return meaning(parse(query), TWO).sql


def refused(query: str) -> str:
    with pytest.raises(QueryError) as caught:
        meaning(parse(query), TWO)
    return str(caught.value)


def test_spellings_of_one_query_have_one_fingerprint() -> None:
    one = "SELECT a FROM t WHERE a <> 1 -- all others"
    assert SQL.fingerprint(one) == SQL.fingerprint("select A\nfrom T where a != 1 ;")
    assert SQL.fingerprint(one) != SQL.fingerprint("SELECT a FROM t WHERE a <> 2")


def test_queries_that_are_alike_up_to_names_and_constants_have_one_shape() -> None:
    one = SQL.shape("SELECT name AS n FROM pets WHERE age > 3 AND name = 'bob'")
    assert one == SQL.shape("SELECT b x FROM t WHERE a > 40 AND b = ''")
    assert one != SQL.shape("SELECT b x FROM t WHERE a > 40 AND c = ''")
    assert one != SQL.shape("SELECT b x FROM t WHERE a >= 40 AND b = ''")
    assert one == SQL.shape("SELECT ((b)) FROM t WHERE (a > 1) AND (+b) = 'y'")
    assert SQL.shape("SELECT a FROM t ORDER BY a LIMIT 2") == SQL.shape("SELECT c FROM u ORDER BY c LIMIT 9")
    assert SQL.shape("SELECT a FROM t, u") != SQL.shape("SELECT a FROM t LEFT JOIN u ON a = c")
    assert SQL.shape("no query ") == SQL.shape("no query") != SQL.shape("none")
    assert SQL.shape("SELECT max(a) FROM t") != SQL.shape("SELECT min(a) FROM t")


def test_operators_bind_as_in_sqlite() -> None:
    assert sql_of("SELECT 1 + 2 * 3 - 4") == 'SELECT (((1) + ((2) * (3))) - (4)) AS "c1"'
    assert sql_of("SELECT NOT 1 = 2 < 3") == 'SELECT (NOT ((1) = ((2) < (3)))) AS "c1"'
    assert sql_of("SELECT 1 OR 0 AND 0") == 'SELECT ((1) OR ((0) AND (0))) AS "c1"'
    assert parse("SELECT a BETWEEN 1 AND 2 AND b").cores[0].columns[0][0] == Operation(
        "and",
        (
            Operation(
                "and",
                (
                    Operation(">=", (Name("", "a"), Literal(1))),
                    Operation("<=", (Name("", "a"), Literal(2))),
                ),
            ),
            Name("", "b"),
        ),
    )


def test_sqlite_never_sees_a_text_as_it_was() -> None:
    assert sql_of("select T.A as x from T as k, t") == (
        'SELECT "s2"."a" AS "c1" FROM "t" AS "s1" CROSS JOIN "t" AS "s2"'
    )
    assert sql_of("SELECT 'it''s' -- no") == "SELECT 'it''s' AS \"c1\""


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT a FROM t LIMIT 1", "LIMIT without ORDER BY takes any rows"),
        ("SELECT b, max(a) FROM t", "b is neither in GROUP BY nor in an aggregate"),
        ("SELECT a FROM t, u", "a is a column of several tables"),
        ("SELECT c FROM t", "there is no column c"),
        ("SELECT a FROM v", "there is no table v"),
        ("SELECT (SELECT a FROM u)", "a query that is used as a value needs an aggregate and no GROUP BY"),
        ("SELECT a AS b, count(*) FROM t GROUP BY b", "b is a column and the name of another value"),
        ("SELECT a FROM t UNION SELECT b FROM t", "integer and text in one place: use CAST"),
        ("SELECT DISTINCT a FROM t ORDER BY b", "it can only be ordered by one of its columns"),
        ("SELECT a FROM t ORDER BY 3", "ORDER BY a column that is not there"),
        ("SELECT sum(a / 2.0) FROM t", "sum is over whole numbers"),
        ("SELECT sum(sum(a)) FROM t", "an aggregate inside an aggregate"),
        ("SELECT a FROM t WHERE sum(a) > 1", "sum cannot stand here"),
        ("SELECT (SELECT sum(t.a) FROM u) FROM t", "a belongs to the query around the aggregate"),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", "ORDER BY and LIMIT belong to the end of the whole query"),
        (
            "WITH x AS (SELECT a FROM t), X AS (SELECT c FROM u) SELECT * FROM x",
            "WITH has two queries of the name x",
        ),
        ("SELECT round(a, 9) FROM t", "round needs a constant number of digits, 0 to 6"),
        (f"SELECT {'1 + ' * MOST_BRACKETS}1", "its expressions are nested too deep"),
        ("WITH w AS (SELECT a FROM w) SELECT a FROM w", "there is no table w"),
    ],
)
def test_what_depends_on_more_than_query_and_tables_is_refused(query: str, reason: str) -> None:
    assert refused(query) == reason


@pytest.mark.parametrize("text", ["PRAGMA x", "DELETE FROM t", "SELECT random()", "SELECT a FROM t GLOB"])
def test_what_the_language_does_not_have_on_purpose_is_forbidden(text: str) -> None:
    outcome = SQL.job(text, (TWO.text(),))
    assert isinstance(outcome, Outcome)
    assert outcome.status == "forbidden"


def test_the_deepest_query_that_is_admitted_can_be_read(sql_sandbox: Sandbox) -> None:
    chain = f"SELECT {'1 + ' * (MOST_BRACKETS - 2)}1"
    queries = 5
    inner = "SELECT max(a) FROM t WHERE a IN (" * queries + "SELECT a FROM u" + ")" * queries
    jobs = [SQL.job(query, (TWO.text(),)) for query in (chain, inner)]
    outcomes = sql_sandbox.run([job for job in jobs if isinstance(job, Job)])
    assert [outcome.outputs for outcome in outcomes] == [("[(21,)]",), ("[(1,)]",)]


def test_joins_conditions_and_nesting_are_measured() -> None:
    def sizes(query: str) -> tuple[int, int, int]:
        size = complexity_of(reached_tree(SQL.tree(query)))
        return size.cyclomatic, size.depth, size.variables

    plain = sizes("SELECT a FROM t")
    joined = sizes("SELECT a, c FROM t JOIN u ON t.b = u.b WHERE a > 1")
    nested = sizes("SELECT a FROM t WHERE a IN (SELECT a FROM u WHERE c = (SELECT max(c) FROM u))")
    assert joined[0] > plain[0]
    assert joined[2] > plain[2]
    assert nested[1] > joined[1]
    assert ast.unparse(SQL.tree("SELECT a, count(*) FROM t GROUP BY a ORDER BY 2 DESC LIMIT 3"))


@given(st.lists(st.sampled_from(WORDS.split()), max_size=40).map(" ".join) | st.text(max_size=200))
def test_no_text_is_too_much_for_the_reader(text: str) -> None:
    for query in (text, f"SELECT {text}", f"SELECT a FROM t WHERE {text}"):
        job = SQL.job(query, (TWO.text(),))
        assert isinstance(job, Job) or job.detail
        assert SQL.shape(query)
        if isinstance(job, Job):
            assert complexity_of(SQL.tree(query)).nodes
