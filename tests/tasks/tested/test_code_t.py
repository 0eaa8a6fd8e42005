"""`code_t`: tests as texts, how a task is posed and judged, and that nothing depends on what a teacher says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from redqueen.config import Config, GameConfig
from redqueen.jail import LiteralError
from redqueen.members.question import read_question
from redqueen.method.behaviour import TracedWorkings
from redqueen.method.prompts import prompts
from redqueen.method.verifier import LocalVerifier, answer_to
from redqueen.records import Draft, Pair, Proposal, Task
from redqueen.tasks.kinds import SeedError, find, task_on
from redqueen.tasks.python import PYTHON
from redqueen.tasks.tested import TESTED
from redqueen.tasks.tested.tests import spelled, stdin_of

KIND = find("code_t")


def task(program: str, *pairs: tuple[str, str], message: str = "Add two numbers.\nThey are whole.") -> Task:
    tests = tuple(Pair(*pair) for pair in pairs)
    return Task(id="t", kind="code_t", author="bank", step=0, program=program, pairs=tests, message=message)


ADD = task("def add(a, b):\n    return a + b", ("add(2, 2)", "4"), ("add(1, 2)", "3"), ("add(0, 2)", "2"))
SCRIPT = task(
    "a, b = map(int, input().split())\n\nprint(a + b)", ("stdin('1 2')", "'3\\n'"), ("stdin('5 2')", "'7\\n'")
)
METHOD = task("", ("Solution().g(3)  # json", "[3, 4]"), ("Solution().g(5)  # json", "[5, 6]"))


def test_it_is_off_unless_it_is_asked_for() -> None:
    assert GameConfig().kinds == ("code_o", "code_i", "code_f")
    assert Config().override(["game.kinds=code_t"]).game.kinds == ("code_t",)


@pytest.mark.parametrize(
    ("posed", "answer", "status"),
    [
        (ADD, "def add(a, b):\n    return b + a", "correct"),
        (ADD, "def add(a, b):\n    return float(a + b)", "correct"),
        (ADD, "def add(a, b):\n    return 4 if a else 2", "wrong"),
        (ADD, "def add(a, b", "malformed"),
        (ADD, "import os\ndef add(a, b):\n    return a + b", "error"),
        (ADD, "def plus(a, b):\n    return a + b", "error"),
        (SCRIPT, "print(sum(map(int, input().split())))", "correct"),
        (SCRIPT, "print(3)", "wrong"),
        (SCRIPT, "print(1 / 0)", "error"),
        (SCRIPT, "raise SystemExit(3)", "error"),
        (METHOD, "class Solution:\n    def g(self, n):\n        return n, n + 1", "correct"),
        (METHOD, "class Solution:\n    def g(self, n):\n        return {n, n + 1}", "wrong"),
    ],
)
def test_a_program_is_right_if_it_passes_all_tests(
    verifier: LocalVerifier, posed: Task, answer: str, status: str
) -> None:
    assert verifier.judge_answer(answer_to(posed, answer)).result().status == status


def test_a_program_that_writes_out_what_is_shown_fails_on_the_rest(verifier: LocalVerifier) -> None:
    assert len(KIND.shown(ADD)) == 2
    copied = "def add(a, b):\n    return {(2, 2): 4, (1, 2): 3}.get((a, b))"
    assert verifier.judge_answer(answer_to(ADD, copied)).result().status == "wrong"


def test_the_jail_makes_the_tests_of_a_proposal(verifier: LocalVerifier) -> None:
    def judged(program: str, *inputs: str) -> tuple[str, tuple[Pair, ...]]:
        proposal = Proposal(id="p", kind="code_t", author="T0", step=1, draft=Draft(program, inputs, "m"))
        verdict, made = verifier.judge_proposal(proposal).result()
        return verdict.status, made.pairs if made else ()

    assert judged(ADD.program, "add(2,2)", "add(1, 2)") == ("valid", (Pair("add(2, 2)", "4"), Pair("add(1, 2)", "3")))
    assert judged(SCRIPT.program, "stdin('1 2')", 'stdin("3 4")')[1][1] == Pair("stdin('3 4')", "'7\\n'")
    counter = "n = 0\ndef f(x):\n    global n\n    n += 1\n    return n"
    assert judged(counter, "f(1)", "f(2)")[0] == "nondeterministic"
    assert judged(ADD.program, "add(2, 2)", "add(2,  2)")[0] == "malformed"
    assert judged(ADD.program, "add(2, 2)", "stdin('1')")[0] == "malformed"


def test_an_input_that_asks_nothing_of_the_program_is_refused() -> None:
    reader = prompts("completion", GameConfig(min_inputs=2))
    text = "# add\ndef add(a, b):\n    return a + b\nadd(1, 2)\nadd({})"
    assert isinstance(reader.read_proposal("code_t", text.format("3, 4"), None), Draft)
    assert "with literals" in str(reader.read_proposal("code_t", text.format("add(1, 1), 4"), None))
    # Any program passes a test of a builtin.
    other = "# add\ndef add(a, b):\n    return a + b\nlen('a')\nlen('ab')"
    assert "is a call of the program" in str(reader.read_proposal("code_t", other, None))
    assert "does not define plus" in str(reader.read_proposal("code_t", other.replace("len", "plus"), None))


def test_a_teacher_needs_no_more_calls_than_published_rows_have_tests() -> None:
    reader = prompts("completion", GameConfig(min_inputs=4))
    text = "# add\ndef add(a, b):\n    return a + b\nadd(1, 2)\nadd(2, 2)\n"
    assert isinstance(reader.read_proposal("code_t", text + "add(3, 4)", None), Draft)
    assert "3 different ones, are needed" in str(reader.read_proposal("code_t", text + "add(2, 2)", None))


@pytest.mark.parametrize("form", ["completion", "chat"])
@pytest.mark.parametrize("posed", [ADD, SCRIPT])
def test_what_is_written_is_read_again(form: str, posed: Task) -> None:
    reader = prompts(form, GameConfig(min_inputs=2))
    draft = Draft(posed.program.replace("\n\n", "\n"), tuple(pair.input for pair in posed.pairs), posed.message)
    read = reader.read_proposal("code_t", reader.write_proposal(posed), None)
    assert isinstance(read, Draft)
    assert (read.program.replace("\n\n", "\n"), read.inputs, read.message) == (
        draft.program,
        draft.inputs,
        draft.message,
    )
    asked = reader.attempt(posed, ())
    written = reader.write_attempt(posed)
    assert written.startswith(asked.prefix)
    assert (reader.read_attempt("code_t", written) or "").replace("\n\n", "\n").strip() == draft.program


def test_the_golden_prompts() -> None:
    completion = prompts("completion", GameConfig())
    assert completion.attempt(ADD, ()).text == (
        "# Puzzle: write the program\n# Add two numbers.\n# They are whole.\n"
        "# assert add(2, 2) == 4\n# assert add(1, 2) == 3\n"
    )
    assert completion.attempt(ADD, ()).prefix == "def add("
    assert completion.attempt(SCRIPT, ()).text.endswith("# They are whole.\n# stdin('1 2') == '3\\n'\n")
    assert completion.attempt(METHOD, ()).prefix == "class Solution"
    chat = prompts("chat", GameConfig())
    assert chat.attempt(METHOD, ()).text == (
        "Write a Python program that does what this message says and passes all tests, of which these are some.\n\n"
        "```message\nAdd two numbers.\nThey are whole.\n```\n\n```python\nassert Solution().g(3) == [3, 4]\n```\n\n"
        "Think first, between <think> and </think>. Then give the result between <answer> and </answer>, as one "
        "```python block with the whole program."
    )
    assert "```input\n1 2\n```\n\n```output\n3\n```" in chat.attempt(SCRIPT, ()).text


@pytest.mark.parametrize(
    ("inputs", "prefix"),
    [
        (["add(1, 2)", "sorted(add(2, 3))", "add(3, 4)[0]"], "def add("),
        (["Find_Max([1])", "len(Find_Max([2]))"], "def Find_Max("),
        (["round(half(3), 1)", "half(1) + half(2)"], "def half("),
        (["Solution().add(1, 2)", "Solution().add(3, 4)"], "class Solution"),
        (["Point(1, 2).norm()", "len(Point(1, 2))"], "class Point"),
        (["len([Point(1, 2).x])", "Point(3, 4).y"], "class Point"),
        (["len(Stack([1]))", "Stack([1, 2])[0]"], ""),
        (["initials('a b').upper()", "initials('c').upper()"], ""),
        (["Money(3)", "Money(3).cents"], ""),
        (["PRIMES[:3]", "PRIMES[0]"], ""),
        (["Shapes.area(1)", "Shapes.area(2)"], ""),
        (["sorted([2, 1], key=order)", "max([2, 1], key=order)"], ""),
        (["add(1)", "sub(1)"], ""),
    ],
)
def test_an_answer_begins_with_a_definition_where_the_tests_leave_no_other(inputs: list[str], prefix: str) -> None:
    posed = task("", *((given, "1") for given in inputs))
    assert prompts("completion", GameConfig()).attempt(posed, ()).prefix == prefix


@pytest.mark.parametrize(
    ("blocks", "answer"),
    [
        ([ADD.program, "print(add(1, 2))"], ADD.program),
        ([ADD.program, "x = add(1, 2)\nassert x == 3"], ADD.program),
        (["class A:\n    x = 1", "print(A().x)"], "class A:\n    x = 1"),
        ([SCRIPT.program, "print(1 + 2)"], SCRIPT.program),
        (["def main():\n    print(3)", SCRIPT.program], SCRIPT.program),
        (["import sys\nprint(sys.stdin.read())", "print('1 2')"], "import sys\nprint(sys.stdin.read())"),
        (["print(1)", "print(2)"], "print(2)"),
        (["add = max", "print(add(1, 2))"], "print(add(1, 2))"),
    ],
)
def test_a_chat_answer_is_the_program_and_not_an_example_of_its_use(blocks: list[str], answer: str) -> None:
    text = "\nUsage:\n".join(f"```python\n{block}\n```" for block in blocks)
    assert prompts("chat", GameConfig()).read_attempt("code_t", f"<answer>\n{text}\n</answer>") == answer


def test_work_is_the_program_and_a_shown_test_checked_below_it(verifier: LocalVerifier) -> None:
    double = task("def f(n):\n    return 2 * n", ("f(4)", "8"), ("f(1)", "2"))
    work = prompts("work", GameConfig())
    text = work.write_work(double, TracedWorkings(verifier))  # type: ignore[attr-defined]
    assert text == "def f(n):\n    return 2 * n\n# f(4)\n# return 2 * 4 -> 8"
    assert work.read_attempt("code_t", text) == double.program


def test_the_seeds_of_python_are_seeds_here_and_the_reserved_stay_reserved(verifier: LocalVerifier) -> None:
    draft = TESTED.seeds()[5]
    assert (draft.program, draft.inputs[0]) == (PYTHON.seeds()[5].program, f"f({PYTHON.seeds()[5].inputs[0]})")
    proposal = Proposal(id="seed-5", kind=TESTED.name, author="seed", step=0, draft=draft)
    whole = verifier.judge_proposal(proposal).result()[1]
    assert whole is not None
    made = task_on(whole, "code_t", least=99)
    assert made is not None
    assert made.pairs == whole.pairs
    assert TESTED.is_reserved(PYTHON.reserved()[0].program)


def test_an_imported_file_is_a_file_of_seeds_as_far_as_it_has_programs(tmp_path: Path) -> None:
    rows = [
        {"kind": "code_t", "program": each.program, "message": "m", "inputs": [pair.input for pair in each.pairs]}
        for each in (ADD, METHOD)
    ]
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert TESTED.seeds(str(file)) == (Draft(ADD.program, ("add(2, 2)", "add(1, 2)", "add(0, 2)"), "m"),)
    file.write_text(json.dumps(rows[1]) + "\n")
    with pytest.raises(SeedError, match="no task of code_t with a program"):
        TESTED.seeds(str(file))


def test_a_person_can_ask_for_a_program_that_passes_tests() -> None:
    question = read_question("# add\nassert add(1, 2) == 3\nassert add(2, 2) == 4")
    assert (question.kind, question.message) == ("code_t", "add")
    assert question.pairs == (Pair("add(1, 2)", "3"), Pair("add(2, 2)", "4"))


def test_tests_have_one_spelling() -> None:
    assert spelled("add( 2,2 )") == "add(2, 2)"
    assert spelled('stdin("a")') == "stdin('a')"
    assert spelled("f(1)  # json") == "f(1)  # json"
    assert stdin_of("stdin('a', 'b')") is None
    with pytest.raises(LiteralError, match="no expression"):
        spelled("f(")
