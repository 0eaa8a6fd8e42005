"""Work: what lessons write above an answer is true, and of a student's text the answer alone is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redqueen.config import GameConfig
from redqueen.method.behaviour import TracedWorkings
from redqueen.method.planting import verified_tasks
from redqueen.method.prompts import WorkPrompts, prompts, taken_apart
from redqueen.method.verifier import LocalVerifier, answer_to
from redqueen.records import Draft, Kind, Pair, Task
from redqueen.tasks.kinds import languages, task_on
from redqueen.tasks.kinds.work import after_arrow

PROMPTS = WorkPrompts(GameConfig())
PYTHON_KINDS = ("code_o", "code_i", "code_f")


@pytest.fixture
def tasks(verifier: LocalVerifier) -> dict[Kind, Task]:
    """A program of each language as a task of each kind."""
    drafts = {
        "python": Draft("def f(x):\n    y = x + 1\n    return y * 2", ("1", "2", "3", "4"), "one more, doubled"),
        "expr": Draft("(x % 2 + y) * 2", ("5, 5", "4, 1", "0, 3", "1, 1")),
    }
    made: dict[Kind, Task] = {}
    for language in languages(["code_o", "expr_o"]):
        (whole,) = verified_tasks(verifier, {"seed-0": drafts[language.name]}, language)
        for kind in (*PYTHON_KINDS, "expr_o", "expr_i", "expr_f"):
            task = task_on(whole, kind)
            if task is not None:
                made[kind] = task
    return made


WRITTEN = {
    "code_o": "\ny = 1 + 1 -> 2\nreturn 2 * 2 -> 4",
    "code_i": "1)\ny = 1 + 1 -> 2\nreturn 2 * 2 -> 4",
    "code_f": "def f(x):\n    y = x + 1\n    return y * 2\n# f(1)\n# y = 1 + 1 -> 2\n# return 2 * 2 -> 4",
    "expr_o": "\n(5 % 2 + 5) * 2 -> (1 + 5) * 2 -> 6 * 2 -> 12",
    "expr_i": "5, 5)\n(5 % 2 + 5) * 2 -> (1 + 5) * 2 -> 6 * 2 -> 12",
    # An expression has no comments to work in.
    "expr_f": " (x % 2 + y) * 2",
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_lesson_works_the_answer_out(verifier: LocalVerifier, tasks: dict[Kind, Task], kind: Kind) -> None:
    text = PROMPTS.write_work(tasks[kind], TracedWorkings(verifier)) or PROMPTS.write_attempt(tasks[kind])
    assert text == WRITTEN[kind]


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_lesson_is_judged_correct_by_its_answer(verifier: LocalVerifier, tasks: dict[Kind, Task], kind: Kind) -> None:
    answer = answer_to(tasks[kind], PROMPTS.read_attempt(kind, WRITTEN[kind]))
    assert verifier.judge_answer(answer).result().status == "correct"


@pytest.mark.parametrize("kind", WRITTEN)
def test_the_question_is_that_of_completion_prompts_and_ends_at_a_blank_line(
    tasks: dict[Kind, Task], kind: Kind
) -> None:
    asked = PROMPTS.attempt(tasks[kind], ())
    assert asked.text == prompts("completion", GameConfig()).attempt(tasks[kind], ()).text
    assert asked.stop == ("\n\n",)


def test_inputs_that_miss_are_tried_before_the_right_one(verifier: LocalVerifier, tasks: dict[Kind, Task]) -> None:
    class Missing(TracedWorkings):
        def misses(self, task: Task) -> list[Pair]:
            return [Pair("3", "8")]

    text = PROMPTS.write_work(tasks["code_i"], Missing(verifier))
    assert text is not None
    assert text == "3)\ny = 3 + 1 -> 4\nreturn 4 * 2 -> 8\nf(1)\ny = 1 + 1 -> 2\nreturn 2 * 2 -> 4"
    assert PROMPTS.read_attempt("code_i", text) == "1"


def test_only_inputs_with_another_output_are_misses(verifier: LocalVerifier) -> None:
    pairs = tuple(Pair(str(x), str(x % 2)) for x in range(8))
    whole = Task(id="w", kind="python", author="seed", step=0, program="def f(x):\n    return x % 2", pairs=pairs)
    workings = TracedWorkings(verifier, [whole])
    drawn = [workings.misses(replace(whole, kind="code_i", pairs=(pair,))) for pair in pairs]
    assert any(drawn), "some lessons try an input first"
    assert all(miss.output != pair.output for pair, misses in zip(pairs, drawn, strict=True) for miss in misses)


@pytest.mark.parametrize(
    ("kind", "text", "answer"),
    [
        ("code_o", " 4", "4"),
        ("code_o", "\nreturn 2 * 2 -> 4", "4"),
        ("code_o", "\nreturn 'a -> b' + 'c' -> 'a -> bc'", "'a -> bc'"),
        ("code_o", "\nreturn 2 * 2 ->", "return 2 * 2 ->"),
        ("code_o", "\nreturn 2 * 2 -> four", "four"),
        ("code_o", "", None),
        ("code_o", "\n -> 4\ny = 5", "y = 5"),
        ("code_i", "1)", "1"),
        ("code_i", "1", None),
        ("code_i", "1)\nreturn 1 -> 2\nf(2)\nreturn 2 -> 4", "2"),
        ("code_i", "1)\nreturn 1 -> 2\nf(2", "1"),
        ("code_i", "1)\nf(2) is not tried", "1"),
        ("code_f", "x):\n    return x\n# f(1)\n# return -> 1", "x):\n    return x"),
        ("expr_o", "\n3 + 4 -> 7", "7"),
        ("expr_i", "1, 2)\n1 + 2 -> 3\nf(2, 2)\n2 + 2 -> 4", "2, 2"),
        ("expr_f", " x + y", "x + y"),
    ],
)
def test_the_answer_stands_behind_the_work(kind: Kind, text: str, answer: str | None) -> None:
    assert PROMPTS.read_attempt(kind, text) == answer


@pytest.mark.parametrize(
    ("name", "kind", "text", "work", "answer"),
    [
        ("work", "code_o", "\ny = 2\nreturn 2 * 2 -> 4", "y = 2\nreturn 2 * 2", "4"),
        ("work", "code_i", "1)\nreturn 2 -> 2", "return 2 -> 2", "f(1)"),
        ("chat", "code_o", "<think>two</think> <answer>\n4\n</answer>", "<think>two</think>", "4\n</answer>"),
        ("chat", "code_o", "two", "two", None),
        ("completion", "code_o", " 4", "", "4"),
        ("completion", "code_i", "1)", "", "f(1)"),
        ("a_plugin", "code_o", " 4", "", "4"),
    ],
)
def test_people_see_work_and_answer_apart(name: str, kind: Kind, text: str, work: str, answer: str | None) -> None:
    parts = taken_apart(name, kind, text)
    assert (parts.work, parts.answer) == (work, answer)


def test_work_that_the_jail_cannot_follow_is_left_out(verifier: LocalVerifier) -> None:
    program = "def f(x):\n    return [i for i in range(x)] * 100"
    pairs = (Pair("9", "0"),)
    task = Task(id="t", kind="code_o", author="seed", step=0, program=program, pairs=pairs)
    assert PROMPTS.write_work(task, TracedWorkings(verifier)) is None


def test_a_query_is_worked_out_clause_by_clause(verifier: LocalVerifier) -> None:
    query = "select b.t from a join b on a.n = b.n where a.n > 1 order by b.t"
    given = "{'a': [('n',), (1,), (2,), (3,)], 'b': [('n', 't'), (2, 'y'), (3, 'x'), (9, 'z')]}"
    drafts = {"q": Draft(query, (given,))}
    (language,) = languages(["sql_o"])
    (whole,) = verified_tasks(verifier, drafts, language)
    task = task_on(whole, "sql_o")
    assert task is not None
    text = PROMPTS.write_work(task, TracedWorkings(verifier))
    assert text == (
        "\nFROM a JOIN b ON a.n = b.n -> [(2, 2, 'y'), (3, 3, 'x')]"
        "\nWHERE a.n > 1 -> [(2, 2, 'y'), (3, 3, 'x')]"
        "\nSELECT b.t ORDER BY b.t -> (('x',), ('y',))"
    )
    assert verifier.judge_answer(answer_to(task, PROMPTS.read_attempt("sql_o", text))).result().status == "correct"

    found = task_on(whole, "sql_i")
    assert found is not None
    text = PROMPTS.write_work(found, TracedWorkings(verifier, [whole]))
    assert text is not None
    assert text.startswith(f"{found.pairs[0].input}\nFROM a JOIN b")
    assert verifier.judge_answer(answer_to(found, PROMPTS.read_attempt("sql_i", text))).result().status == "correct"


def test_a_line_that_repeats_an_arrow_is_read_in_proportion_to_its_length() -> None:
    read: list[str] = []
    worked = after_arrow("1" + " -> 1" * 4_000, lambda end: bool(read.append(end)))
    assert worked.answer == "1"
    assert len(read) < 100
