"""The three kinds of tasks: proposed, posed, answered and judged, with the real jail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from redqueen.config import Config, SandboxConfig
from redqueen.extras.sql.database import more_databases, read_database
from redqueen.extras.sql.language import SQL
from redqueen.extras.sql.modes import KINDS
from redqueen.jail import LiteralError, OversizeError
from redqueen.members.question import QuestionError, read_question, write_question
from redqueen.method.planting import verified_tasks
from redqueen.method.prompts import prompts
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Draft, Pair, Proposal, Task, Verdict
from redqueen.tasks.kinds import InputCounts, SeedError, find, languages, task_on
from tests.grading import grade

NAMES = tuple(kind.name for kind in KINDS)
COUNTS = InputCounts(least=2, most=6)
ONE = "{'t': [('a', 'b'), (1, 'x'), (2, 'y'), (2, 'x')]}"
OTHER = "{'t': [('a', 'b'), (5, 'y')]}"


@pytest.fixture(scope="module")
def judge() -> Iterator[LocalVerifier]:
    with LocalVerifier(SandboxConfig(workers=1, cpu_s=5.0, wall_s=120.0), min_inputs=2) as verifier:
        yield verifier


def proposed(judge: LocalVerifier, kind: str, program: str, *inputs: str) -> tuple[Verdict, Task | None]:
    draft = Draft(program, inputs, "what is wanted")
    return judge.judge_proposal(Proposal(id="p", kind=kind, author="T0", step=1, draft=draft)).result()


def statuses(judge: LocalVerifier, task: Task | None, *answers: str) -> list[str]:
    assert task is not None
    return [verdict.status for verdict in grade(judge, [(task, answer) for answer in answers])]


def test_rows_without_an_order_are_right_in_any(judge: LocalVerifier) -> None:
    _, task = proposed(judge, "sql_o", "SELECT a FROM t", ONE)
    assert task is not None
    assert task.pairs == (Pair(ONE, "[(1,), (2,), (2,)]"),)
    answers = ("[(2,), (1,), (2,)]", "((2,), (2,), (1,))", "[[1], [2], [2]]")
    assert statuses(judge, task, *answers) == ["correct"] * 3
    wrong = ("[(1,), (2,)]", "[(1.0,), (2,), (2,)]", "[('1',), (2,), (2,)]", "[]")
    assert statuses(judge, task, *wrong) == ["wrong"] * 4
    assert statuses(judge, task, "[1, 2, 2]", "rows", "{'a': 1}", "[(1,), (2, 2)]") == ["malformed"] * 4


def test_rows_with_an_order_are_right_in_that_order(judge: LocalVerifier) -> None:
    _, task = proposed(judge, "sql_o", "SELECT a, b FROM t ORDER BY a DESC, b", ONE)
    assert task is not None
    assert task.pairs[0].output == "((2, 'x'), (2, 'y'), (1, 'x'))"
    assert statuses(judge, task, "[(2, 'x'), (2, 'y'), (1, 'x')]", "((1, 'x'), (2, 'x'), (2, 'y'))") == [
        "correct",
        "wrong",
    ]


def test_real_numbers_are_shown_with_four_decimals(judge: LocalVerifier) -> None:
    _, task = proposed(judge, "sql_o", "SELECT avg(a), -0.0 * a FROM t GROUP BY a", "{'t': [('a',), (0,), (0,)]}")
    assert task is not None
    assert task.pairs[0].output == "[(0.0, 0.0)]"
    _, task = proposed(judge, "sql_o", "SELECT a / 3.0 FROM t", "{'t': [('a',), (2,)]}")
    assert statuses(judge, task, "[(0.6667,)]", "[(0.66667,)]", "[(0.66,)]") == ["correct", "correct", "wrong"]


@pytest.mark.parametrize(
    "query",
    ["SELECT a, b FROM t ORDER BY a", "SELECT b FROM t ORDER BY a LIMIT 2", "SELECT a FROM t ORDER BY b LIMIT 1"],
)
def test_rows_that_tie_make_no_task(judge: LocalVerifier, query: str) -> None:
    verdict, task = proposed(judge, "sql_o", query, ONE)
    assert (verdict.status, task) == ("nondeterministic", None)
    assert "depends on how they are stored" in verdict.detail


def test_ties_of_equal_rows_and_beyond_the_limit_do_no_harm(judge: LocalVerifier) -> None:
    _, task = proposed(judge, "sql_o", "SELECT a FROM t ORDER BY a DESC", ONE)
    assert task is not None
    assert task.pairs[0].output == "((2,), (2,), (1,))"
    _, task = proposed(judge, "sql_o", "SELECT b FROM t ORDER BY a LIMIT 1", ONE)
    assert task is not None
    assert task.pairs[0].output == "(('x',),)"


def test_any_rows_of_the_same_tables_that_give_the_result_are_right(judge: LocalVerifier) -> None:
    _, task = proposed(judge, "sql_i", "SELECT b FROM t WHERE a > 1", ONE)
    right = ("{'t': [('a', 'b'), (9, 'x'), (8, 'y')]}", ONE, "{'t': [['a', 'b'], [9, 'y'], [8, 'x'], [0, 'z']]}")
    assert statuses(judge, task, *right) == ["correct"] * 3
    wrong = ("{'t': [('a', 'b'), (9, 'x')]}", "{'t': [('b', 'a'), ('x', 9)]}", "{'u': [('a',), (1,)]}")
    assert statuses(judge, task, *wrong) == ["wrong"] * 3
    assert statuses(judge, task, "[(2,)]", "{'t': []}", "{'t': [('a', 'b'), (1, 2), (1, 'x')]}") == ["malformed"] * 3


def test_a_query_is_judged_on_hidden_databases(judge: LocalVerifier) -> None:
    verdict, task = proposed(judge, "sql_f", "SELECT b FROM t WHERE a > 1", ONE, OTHER)
    assert verdict.status == "valid"
    assert task is not None
    kind = find("sql_f")
    assert [pair.input for pair in kind.shown(task)] == [ONE, OTHER]
    assert len(kind.judged_on(task)) == 8
    right = (
        "SELECT b FROM t WHERE a >= 2",
        "SELECT b FROM t WHERE NOT a <= 1 ORDER BY b, a",
        "select t.b from t where a>1;",
    )
    assert statuses(judge, task, *right) == ["correct"] * 3
    # Right on the shown databases: only the hidden ones tell.
    assert statuses(judge, task, "SELECT b FROM t WHERE a > 1 AND b < 'z'") == ["wrong"]
    assert statuses(judge, task, "SELECT b FROM t WHERE a = 2 OR a = 5", "SELECT DISTINCT b FROM t WHERE a > 1") == [
        "wrong",
        "wrong",
    ]
    assert statuses(judge, task, "SELECT b FROM u", "DELETE FROM t", "SELECT") == ["error", "error", "malformed"]


def test_a_query_that_orders_is_answered_by_one_that_orders(judge: LocalVerifier) -> None:
    _, task = proposed(judge, "sql_f", "SELECT DISTINCT a FROM t ORDER BY a", ONE, OTHER)
    answers = ("SELECT a FROM t GROUP BY a ORDER BY 1", "SELECT DISTINCT a FROM t", "SELECT a FROM t GROUP BY a")
    assert statuses(judge, task, *answers) == ["correct", "wrong", "wrong"]


def test_the_same_databases_are_drawn_each_time() -> None:
    given = [read_database(ONE), read_database(OTHER)]
    drawn = more_databases(given, (3, "new"), 6, "seed")
    assert drawn == more_databases(given, (3, "new"), 6, "seed")
    assert drawn != more_databases(given, (3, "new"), 6, "other")
    assert {database.schema for database in drawn} == {"t(a, b)"}
    values = {cell for database in drawn for row in database.tables["t"].rows for cell in row}
    assert values <= {None, 0, 1, 2, 3, 4, 5, 6, "x", "y", "new", "xq", "yq", "newq", "qx", "qy", "qnew"}
    assert len(values) > 10


def test_one_result_for_all_databases_is_no_task(judge: LocalVerifier) -> None:
    verdict, task = proposed(judge, "sql_f", "SELECT count(*) FROM t WHERE a IS NULL AND a = 1", ONE, OTHER)
    assert task is None
    assert verdict.detail == "it gives the same rows on every database"


@pytest.mark.parametrize(
    "text",
    [
        "{'t': [('a', 'a'), (1, 1)]}",
        "{'t': [('A',), (1,)]}",
        "{'select': [('a',), (1,)]}",
        "{'sqlite_master': [('a',), (1,)]}",
        "{'t': [('rowid',), (1,)]}",
        "{'t\"; DROP': [('a',), (1,)]}",
        "{'t': [('a',), (1,), ('x',)]}",
        "{'t': [('a',), (1.5,)]}",
        "{'t': [('a',), (True,)]}",
        "{'t': [('a',), (b'x',)]}",
        "{'t': [('a',), ('\\x00',)]}",
        "{'t': [('a',), ('é',)]}",
        "{'t': [('a',), (1, 2)]}",
        "{'t': 'rows'}",
        "{}",
        "[]",
        "",
        "__import__('os')",
    ],
)
def test_no_database(text: str) -> None:
    with pytest.raises(LiteralError):
        read_database(text)


@pytest.mark.parametrize(
    "text",
    [
        "{'t': [('a',), (10000000000,)]}",
        f"{{'t': [('a',), ('{'x' * 41}',)]}}",
        f"{{'t': [('a',){', (1,)' * 41}]}}",
        str({f"t{number}": [("a",)] for number in range(5)}),
    ],
)
def test_a_database_that_is_too_large(text: str) -> None:
    with pytest.raises(OversizeError):
        read_database(text)


def test_the_order_of_rows_is_no_part_of_a_database() -> None:
    assert SQL.input_identity("{'t': [('a',), (1,), (2,)]}") == SQL.input_identity("{'t':[('a',),(2,),(1,)]}")
    assert SQL.input_identity("{'t': [('a',), (1,), (2,)]}") != SQL.input_identity("{'t': [('a',), (2,)]}")


@pytest.mark.slow
def test_all_seeds_are_tasks_of_every_kind_and_none_is_reserved(judge: LocalVerifier) -> None:
    drafts = {str(number): draft for number, draft in enumerate(SQL.seeds()[::3])}
    wholes = verified_tasks(judge, drafts, SQL)
    assert len(wholes) == len(drafts) > 80
    assert all("None" not in (pair.output for pair in whole.pairs) for whole in wholes)
    assert all(task_on(whole, name) for whole in wholes for name in NAMES)
    assert not any(SQL.is_reserved(draft.program) for draft in SQL.seeds())
    assert all(SQL.is_reserved(draft.program) for draft in SQL.reserved())


@pytest.mark.slow
def test_the_halves_share_no_shape(judge: LocalVerifier) -> None:
    one, other = ({SQL.shape(draft.program) for draft in SQL.reserved(half)} for half in ("selection", "report"))
    assert len(one) == len(other) == 10
    assert not one & other
    assert len(verified_tasks(judge, {str(n): d for n, d in enumerate(SQL.reserved())}, SQL)) == len(SQL.reserved())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["completion", "chat"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_again(judge: LocalVerifier, form: str, name: str) -> None:
    words = prompts(form, Config().override(["game.min_inputs=2"]).game)
    for whole in verified_tasks(judge, {str(n): d for n, d in enumerate(SQL.seeds()[::24])}, SQL):
        task = task_on(whole, name)
        assert task is not None
        start = task if find(name).starts_from_program else None
        draft = words.read_proposal(name, words.write_proposal(task), start)
        assert isinstance(draft, Draft)
        assert draft.program == task.program
        assert draft.inputs == tuple(pair.input for pair in task.pairs)[: len(draft.inputs)]
        prompt = words.attempt(task, ())
        if name == "sql_f":
            assert task.program not in prompt.text
            assert all(pair.input in prompt.text for pair in task.pairs[:2])
            assert not any(pair.input in prompt.text for pair in task.pairs[2:])
        else:
            assert (task.pairs[0].input in prompt.text) == (name == "sql_o")
        answer = words.read_attempt(name, words.write_attempt(task))
        assert statuses(judge, task, answer or "") == ["correct"]


@pytest.mark.parametrize("name", NAMES)
def test_a_person_asks_as_a_task_is_shown(judge: LocalVerifier, name: str) -> None:
    (whole,) = verified_tasks(judge, {"0": SQL.seeds()[40]}, SQL)
    task = task_on(whole, name)
    assert task is not None
    question = read_question(write_question(task), NAMES)
    assert (question.kind, len(question.pairs)) == (name, len(task.pairs))
    if name == "sql_i":
        assert question.program == f"{task.program}\n-- {read_database(task.pairs[0].input).schema}"
        asked = replace(task, program=question.program, pairs=question.pairs)
        assert write_question(asked) == write_question(task)
        assert prompts("completion", Config().game).attempt(asked, ()).text.endswith(f"{task.pairs[0].output} <-")
        assert question.pairs[0].output == task.pairs[0].output


def test_a_person_writes_more_examples_than_are_shown() -> None:
    with pytest.raises(QuestionError, match="2 examples are shown and the others judge"):
        read_question(f"-- all\n{ONE} -> [(1,)]\n{OTHER} -> []", NAMES)
    with pytest.raises(QuestionError, match="cannot read"):
        read_question(f"-- all\n{ONE} - []", NAMES)


def test_a_users_own_seeds(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("seeds") / "own.txt"
    file.write_text(f"-- all rows\nSELECT *\nFROM t\n{ONE}\n{OTHER}\n")
    assert SQL.seeds(str(file)) == (Draft("SELECT *\nFROM t", (ONE, OTHER), "all rows"),)
    file.write_text(f"\ufeff-- all rows\nSELECT *\nFROM t\n{ONE}\n \n-- all rows\nSELECT *\nFROM t\n{OTHER}\n")
    assert [draft.inputs for draft in SQL.seeds(str(file))] == [(ONE,), (OTHER,)]
    file.write_text("-- all rows\nSELECT *\nFROM t\n")
    with pytest.raises(SeedError, match="line 1: no seed"):
        SQL.seeds(str(file))


def test_it_is_found_by_its_folder() -> None:
    assert [language.name for language in languages(["code_o", *NAMES])] == ["python", "sql"]
    assert Config().override(["game.kinds=code_o,sql_o"]).game.kinds == ("code_o", "sql_o")
