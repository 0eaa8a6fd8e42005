"""Tasks as a person writes them: what is written is read back, and what is no question says how to ask."""

from __future__ import annotations

import pytest

from redqueen.members.question import QuestionError, read_question, write_question
from redqueen.records import Kind, Pair, Task
from redqueen.tasks.python import NAMES

PROGRAM = "def f(x):\n    return x * 2"


def test_a_line_with_a_mark_says_what_is_asked_for() -> None:
    output = read_question(f"{PROGRAM}\nf(4) == ?\n")
    assert (output.kind, output.program, output.pairs) == ("code_o", PROGRAM, (Pair("4", ""),))
    given = read_question(f"{PROGRAM}\n\nf( ? ) == [1, 'f(?) == 2']")
    assert (given.kind, given.program, given.pairs) == ("code_i", PROGRAM, (Pair("", "[1, 'f(?) == 2']"),))


def test_examples_ask_for_the_function() -> None:
    asked = read_question("# double it,\n# please\nf(1) == 2\nf('==', b=(1, 2)) == ('a', )\n")
    assert (asked.kind, asked.program, asked.message) == ("code_f", "", "double it, please")
    assert asked.pairs == (Pair("1", "2"), Pair("'==', b=(1, 2)", "('a', )"))


@pytest.mark.parametrize("kind", NAMES)
def test_a_task_is_read_back_as_it_was_written(kind: Kind, seed_tasks: dict[Kind, list[Task]]) -> None:
    for task in seed_tasks[kind]:
        question = read_question(write_question(task))
        assert question.kind == kind
        if kind == "code_f":
            assert (question.message, question.pairs) == (task.message, task.pairs)
        else:
            assert question.program == task.program.rstrip()
            asked = task.pairs[0]
            assert question.pairs[0] == (Pair(asked.input, "") if kind == "code_o" else Pair("", asked.output))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing is asked"),
        ("\n \n", "nothing is asked"),
        ("f(?) == 3", "the program is missing"),
        ("hello", "cannot read 'hello' as a question"),
        (PROGRAM, "cannot read 'def f"),
        ("# double it\nf(1) == 2", "at least two examples"),
        ("# double it\nf(1) == 2\ng(2) == 4", "cannot read 'g(2) == 4'"),
        ("f(1) == 2\nf(2) < 4", "cannot read 'f(2) < 4'"),
    ],
)
def test_what_is_no_question_says_how_to_ask(text: str, message: str) -> None:
    with pytest.raises(QuestionError) as caught:
        read_question(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
