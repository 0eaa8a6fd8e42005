"""Hostile queries against both walls: the grammar, and SQLite in the jail where the grammar is left out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from redqueen.extras.sql.language import SQL, STEPS, runner
from redqueen.jail import Job, Outcome, Sandbox, encode_arguments

TABLES = {"t": [("a", "b"), (1, "x"), (2, "y"), (3, "x"), (None, "z")]}
GIVEN = repr(TABLES)
DEEP = 3_000
WIDE = 12_000
LONG_LIST = ", ".join(map(str, range(WIDE)))

FILES = {
    "attach": "ATTACH DATABASE '{file}' AS other",
    "attach a new file": "ATTACH '{file}.new' AS other",
    "detach": "DETACH main",
    "vacuum into a file": "VACUUM INTO '{file}.new'",
    "load_extension": "SELECT load_extension('{file}')",
    "readfile": "SELECT readfile('{file}')",
    "writefile": "SELECT writefile('{file}', 'x')",
    "edit": "SELECT edit('x', 'touch {file}.new')",
    "fts3_tokenizer": "SELECT fts3_tokenizer('simple', x'0000000000000000')",
    "virtual table of a file": "CREATE VIRTUAL TABLE c USING csv(filename='{file}')",
    "fsdir": "SELECT name FROM fsdir('/')",
}
STATEMENTS = {
    "pragma": "PRAGMA table_info(t)",
    "pragma that lifts a limit": "PRAGMA hard_heap_limit = 0",
    "pragma function": "SELECT name FROM pragma_table_info('t')",
    "fts5": "CREATE VIRTUAL TABLE f USING fts5(a)",
    "rtree": "CREATE VIRTUAL TABLE r USING rtree(a, b, c)",
    "create": "CREATE TABLE o (a)",
    "temporary table": "CREATE TEMP TABLE o (a)",
    "trigger": "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
    "view": "CREATE VIEW o AS SELECT a FROM t",
    "index": "CREATE INDEX o ON t (a)",
    "drop": "DROP TABLE t",
    "insert": "INSERT INTO t VALUES (9, 'n')",
    "returning": "DELETE FROM t RETURNING a",
    "update": "UPDATE t SET a = 0",
    "replace": "REPLACE INTO t VALUES (9, 'n')",
    "begin": "BEGIN EXCLUSIVE",
    "explain": "EXPLAIN SELECT a FROM t",
    "analyze": "ANALYZE",
    "reindex": "REINDEX",
    "two statements": "SELECT a FROM t; DELETE FROM t",
    "master": "SELECT name FROM sqlite_master",
    "schema": "SELECT sql FROM sqlite_schema",
    "temporary master": "SELECT name FROM sqlite_temp_master",
    "sequence": "SELECT * FROM sqlite_sequence",
    "dbstat": "SELECT * FROM dbstat",
    "json_each": "SELECT value FROM json_each('[1, 2]')",
    "generate_series": "SELECT value FROM generate_series(1, 1000000000)",
}
FUNCTIONS = {
    name: f"SELECT {name}"
    for name in (
        "random()", "randomblob(4)", "changes()", "total_changes()", "last_insert_rowid()", "sqlite_version()",
        "sqlite_source_id()", "sqlite_compileoption_get(1)", "sqlite_compileoption_used('X')", "sqlite_log(1, 'x')",
        "datetime('now')", "date('now')", "time('now')", "julianday('now')", "unixepoch()", "strftime('%s', 'now')",
        "CURRENT_TIMESTAMP", "CURRENT_DATE", "zeroblob(1000000000)", "printf('%999999999d', 1)",
        "format('%.*c', 999999999, 'x')", "hex(zeroblob(100))", "quote('x')", "char(0)", "unicode('x')", "typeof(1)",
        "json('[[1]]')", "json_extract('{}', '$')", "json_group_array(1)", "group_concat(b) FROM t",
        "string_agg(b, '') FROM t", "likelihood(1, 0.5)", "glob('*', 'x')", "'x' GLOB '*'", "soundex('x')",
        "sqlite_offset(a) FROM t", "median(a) FROM t", "pow(2, 3)", "iif(1, 2, 3)", "unhex('00')", "concat('a', 'b')",
    )
}  # fmt: skip
COSTLY = {
    "endless recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "recursion that grows": "WITH RECURSIVE r(n) AS (SELECT 'x' UNION ALL SELECT n || n FROM r) SELECT max(n) FROM r",
    "product of tables": "SELECT count(*) FROM " + ", ".join(f"t AS t{number}" for number in range(16)),
    "product that is sorted": "SELECT t0.b || t7.b FROM "
    + ", ".join(f"t AS t{number}" for number in range(12))
    + " ORDER BY 1",
    "like with many %": f"SELECT a FROM t WHERE b LIKE '{'%x' * 3_000}'",
    "deep brackets": f"SELECT {'(' * DEEP}1{')' * DEEP}",
    "deep queries": "SELECT " + "(SELECT " * DEEP + "1" + ")" * DEEP,
    "deep signs": f"SELECT {'- ' * DEEP}1",
    "deep not": f"SELECT {'NOT ' * DEEP}1",
    "long sum": f"SELECT {'1 + ' * WIDE}1",
    "long list": f"SELECT a FROM t WHERE a IN ({LONG_LIST}, a)",
    "many columns": f"SELECT {LONG_LIST}",
    "many arguments": f"SELECT max({LONG_LIST})",
    "many SELECTs": " UNION ALL ".join(["SELECT 1"] * 600),
    "long text": f"SELECT '{'x' * 100_000}'",
    "long number": f"SELECT {'9' * 5_000}",
}
ADMITTED = {
    "a text that doubles": "SELECT " + "replace(" * 12 + "'xxxxxxxxxx'" + ", 'x', 'xxxxxxxxxx')" * 12,
    "product that is kept": "SELECT * FROM " + ", ".join(f"t AS t{number}" for number in range(6)),
    "product that is counted": "SELECT count(*) FROM "
    + ", ".join(f"(SELECT * FROM w, w AS o) AS w{n}" for n in range(2)),
    "like that backtracks": f"SELECT a FROM t WHERE replace(replace('aaaaaaaa', 'a', '{'a' * 10}'), 'a', '{'a' * 20}')"
    + " LIKE '"
    + "%a" * 40
    + "%b'",
}
"""Queries of the language that cost too much: SQLite's limits end them."""
UNDECIDED = {
    "limit without order": "SELECT a FROM t LIMIT 1",
    "negative limit": "SELECT a FROM t ORDER BY a LIMIT -1",
    "row of a group": "SELECT a, count(*) FROM t GROUP BY b",
    "row beside max": "SELECT b, max(a) FROM t",
    "first row of a query": "SELECT (SELECT a FROM t)",
    "limit inside": "SELECT a FROM t WHERE a IN (SELECT a FROM t ORDER BY b LIMIT 1)",
    "rowid": "SELECT rowid FROM t",
    "oid": "SELECT t.oid FROM t",
    "row_number": "SELECT row_number() OVER (ORDER BY b) FROM t",
    "collation": "SELECT b FROM t ORDER BY b COLLATE NOCASE",
    "overflow": "SELECT 9223372036854775807 + 1",
    "overflow of a product": "SELECT a * 1000000000 * 1000000000 FROM t",
    "overflow of a sum": "SELECT sum(a * 1000000 * 1000000 * 1000) FROM t",
    "smallest number": "SELECT abs(-9223372036854775808)",
    "infinity": "SELECT 9e999",
    "sum of real numbers": "SELECT sum(a * 0.1) FROM t",
    "real number as text": "SELECT 0.1 || ''",
    "cast to text": "SELECT CAST(a / 3.0 AS TEXT) FROM t",
    "cast of a text": "SELECT CAST('9e999' AS REAL)",
    "blob": "SELECT x'00'",
    "unicode": "SELECT upper('straße')",
    "letters that look alike": "SELECT а FROM t",
    "a text as a number": "SELECT b + 1 FROM t",
    "a text beside a number": "SELECT a FROM t WHERE a = '1'",
    "a text as a condition": "SELECT a FROM t WHERE b",
    "quoted name that is a text": 'SELECT "nothing" FROM t',
    "parameter": "SELECT ?1",
    "variable": "SELECT :a",
    "materialized": "WITH m AS MATERIALIZED (SELECT a FROM t) SELECT a FROM m",
    "full join": "SELECT t.a FROM t FULL JOIN t AS o ON t.a = o.a",
    "having alone": "SELECT count(*) FROM t HAVING count(*) > 1",
    "nulls last": "SELECT a FROM t ORDER BY a NULLS LAST",
    "comment that does not end": "SELECT a /* FROM t",
    "end of text inside": "SELECT 'a\0b'",
    "surrogate": "SELECT '\ud800'",
}
EVERYTHING = FILES | STATEMENTS | FUNCTIONS | COSTLY | UNDECIDED


@pytest.fixture
def canary() -> Iterator[Path]:
    """A file that anybody may write, alone in its folder. Afterwards it is as it was."""
    # Not pytest's own folder, which other users cannot enter: the file would be safe without any wall.
    with tempfile.TemporaryDirectory(prefix="canary-") as folder:
        file = Path(folder) / "canary"
        file.write_text("still here")
        Path(folder).chmod(0o777)
        file.chmod(0o666)
        yield file
        assert os.listdir(folder) == ["canary"]
        assert file.read_text() == "still here"


def behind_the_grammar(sandbox: Sandbox, text: str) -> Outcome:
    """Asks SQLite in the jail itself, and then something else."""
    arguments = encode_arguments((text, TABLES, 1, (), 0, None, False, False, STEPS))
    outcome, after = sandbox.run([Job(runner(), (arguments,)), Job(runner(), (NEXT,))])
    assert after.outputs == ("[(1,), (2,), (3,), (None,)]",) or after.outputs == ("[(None,), (1,), (2,), (3,)]",)
    return outcome


NEXT = encode_arguments(("SELECT a FROM t", TABLES, 1, (), 0, None, False, False, STEPS))


@pytest.mark.parametrize("name", EVERYTHING)
def test_the_grammar_refuses_it(name: str) -> None:
    outcome = SQL.job(EVERYTHING[name], (GIVEN,))
    assert isinstance(outcome, Outcome)
    assert outcome.status in ("malformed", "forbidden", "error")
    assert outcome.detail
    # What is asked of its text elsewhere never fails.
    assert SQL.shape(EVERYTHING[name])
    assert SQL.fingerprint(EVERYTHING[name])
    assert not SQL.is_reserved(EVERYTHING[name])


@pytest.mark.parametrize("name", FILES)
def test_sqlite_in_the_jail_touches_no_file(sql_sandbox: Sandbox, canary: Path, name: str) -> None:
    outcome = behind_the_grammar(sql_sandbox, FILES[name].format(file=canary))
    assert (outcome.status, outcome.outputs) == ("error", ())


@pytest.mark.parametrize("name", [*STATEMENTS, *FUNCTIONS])
def test_sqlite_in_the_jail_reads_tables_and_calls_listed_functions_only(sql_sandbox: Sandbox, name: str) -> None:
    outcome = behind_the_grammar(sql_sandbox, EVERYTHING[name])
    assert (outcome.status, outcome.outputs) == ("error", ())


@pytest.mark.parametrize("name", COSTLY)
def test_sqlite_in_the_jail_is_bounded(sql_sandbox: Sandbox, name: str) -> None:
    outcome = behind_the_grammar(sql_sandbox, COSTLY[name])
    assert outcome.status in ("error", "memory", "oversize")
    assert outcome.outputs == ()
    # Steps, memory and lengths end it long before the time does.
    assert outcome.cpu_ms < 3_000


@pytest.mark.parametrize("name", ADMITTED)
def test_what_costs_too_much_ends(sql_sandbox: Sandbox, name: str) -> None:
    wide = repr(TABLES | {"w": [("c",), *((number,) for number in range(40))]})
    job = SQL.job(ADMITTED[name], (wide,))
    assert isinstance(job, Job)
    (outcome,) = sql_sandbox.run([job])
    assert (outcome.status, outcome.outputs) in (("error", ()), ("ok", ("[]",)))
    assert outcome.cpu_ms < 3_000
