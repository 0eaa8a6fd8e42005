"""Tasks whose text holds the answer are found, and what a student is shown has no remarks."""

from __future__ import annotations

import pytest

from redqueen.config import GameConfig
from redqueen.method.prompts import prompts
from redqueen.records import Pair, Task
from redqueen.tasks.kinds import BUILT_IN, find, languages
from redqueen.tasks.kinds.telling import holds, holds_code
from redqueen.tasks.programs.normal_form import without_remarks

ADD = "def f(x):\n    return x * 10 + 9"


def task(program: str, kind: str = "code_o", given: str = "30", output: str = "309", message: str = "") -> Task:
    return Task(
        id="t", kind=kind, author="T0", step=1, program=program, pairs=(Pair(given, output),) * 4, message=message
    )


TOLD = {
    "a comment": "# the answer is 309\n" + ADD,
    "a docstring": 'def f(x):\n    """f(30) == 309"""\n    return x * 10 + 9',
    "an assertion": ADD + "\nassert f(30) == 309",
    "a branch": "def f(x):\n    if False:\n        return 309\n    return x * 10 + 9",
    "a name": "def f(x):\n    answer = '309'\n    return x * 10 + 9",
}


@pytest.mark.parametrize("program", TOLD.values(), ids=TOLD.keys())
def test_an_answer_in_the_program_is_found(program: str) -> None:
    assert find("code_o").told(task(program))
    assert find("code_i").told(task(program, "code_i", given="309", output="3099"[:2]))


@pytest.mark.parametrize(
    ("text", "answer", "given"),
    [
        (ADD, "309", "30"),
        ("x = 3091", "309", "30"),
        ("x = 'a309'", "309", "30"),
        ("return 99 + 10", "99", "1"),  # short
        ("return [1, 2, 3]", "[1, 2, 3]", "[1, 2, 3], 4"),  # given anyway
        ("return 'evening'", "'even'", "2"),
    ],
)
def test_a_text_that_holds_no_answer(text: str, answer: str, given: str) -> None:
    assert not holds(text, answer, given)


def test_texts_and_lists_are_found_as_they_are_written() -> None:
    assert holds("return 'even' if x % 2 == 0 else 'odd'", "'even'", "2")
    assert holds('return "a.b(c"', "'a.b(c'", "1")
    assert holds("# [1, 2]", "[1, 2]", "2")
    # Not where an empty or a strange literal would match anything.
    assert not holds("x" * 99, "''", "1")


SENTENCES = [
    "Return the sum of the digits (of the number).",
    "return the largest number; else 0",
    "Given a list, define what it holds.",
    "Does it return it? Then return that, or nothing.",
    "see the examples",
]
CODE = [
    "def f(x): x",
    "use lambda v: v",
    "first x += 1\nreturn x",
    "return x + 1",
    "return len(x)",
    "return [x]",
]


def test_a_message_with_code_is_no_sentence() -> None:
    assert [message for message in SENTENCES if holds_code(message, ADD)] == []
    assert [message for message in CODE if not holds_code(message, ADD)] == []
    assert holds_code("It is: return x * 10 + 9", "def g():\n    pass")
    assert holds_code("the value x * 10 + 9", "x * 10 + 9")
    assert find("code_f").told(task(ADD, "code_f", message=f"```{ADD}```"))
    assert not find("code_f").told(task(ADD, "code_f", message="Put a nine behind it."))


REMARKS = {
    "def f(x):  # no\n    return x": "def f(x):\n    return x",
    "# a\ndef f(x):\n    # b\n    return '# c'\n# d": "def f(x):\n    return '# c'",
    "'''a'''\ndef f(x):\n    'b'\n    309\n    return x": "def f(x):\n    return x",
    "def f(x):\n    '''a'''": "def f(x):\n    pass",
    "class A:\n    '''a'''\n    n = 1\ndef f(x):\n    if x:\n        'b'\n    else:\n        'c'\n    return A.n": (
        "class A:\n    n = 1\n\ndef f(x):\n    if x:\n        pass\n    return A.n"
    ),
    "try:\n    'a'\nexcept ValueError:\n    'b'\nfinally:\n    'c'": (
        "try:\n    pass\nexcept ValueError:\n    pass\nfinally:\n    pass"
    ),
}


@pytest.mark.parametrize("program", REMARKS)
def test_remarks_are_taken_out(program: str) -> None:
    assert without_remarks(program) == REMARKS[program]


@pytest.mark.parametrize(
    "program",
    [
        "def f( x ):\n\n    return   x  ",
        'def f(x):\n    return \'#\', """a\n# b"""',
        "def f(x):\n    ...\n    return x",
        "def f(x:",
        "def f(x):\n    return " + "-" * 20_000 + "x",
        "x + 1",
        "",
    ],
)
def test_a_program_without_remarks_stays_as_it_is(program: str) -> None:
    assert without_remarks(program) == program


@pytest.mark.slow
def test_every_shipped_program_is_shown_as_it_is() -> None:
    for language in languages(BUILT_IN):
        programs = [draft.program for draft in (*language.seeds(), *language.reserved(None))]
        assert programs
        assert [program for program in programs if language.posed(program) != program] == []


@pytest.mark.parametrize("name", ["completion", "chat"])
def test_a_student_sees_no_remark_and_a_teacher_sees_all_of_a_reference(name: str) -> None:
    form = prompts(name, GameConfig())
    for kind in ("code_o", "code_i"):
        for program in (TOLD["a comment"], TOLD["a docstring"]):
            posed = task(program, kind, given="31", output="319")
            assert "309" not in form.attempt(posed, []).text
            assert "def f(x):\n    return x * 10 + 9" in form.attempt(posed, []).text
            assert "309" in form.propose(kind, [posed], None).text
            # What was written before is shown to people as it was written.
            assert "309" in find(kind).write_question(posed)


def test_comments_of_queries_are_taken_out_and_texts_stay() -> None:
    language = find("sql_o").language
    assert language.posed("SELECT a -- it is 309\nFROM t\n-- 309") == "SELECT a\nFROM t"
    assert language.posed("SELECT '--309' FROM t ") == "SELECT '--309' FROM t "
