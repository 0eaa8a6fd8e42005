"""Rows of every form that people publish: each is told by its columns, checked by the jail, and refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from redqueen.method.verifier import LocalVerifier, answer_to
from redqueen.records import Task
from redqueen.store.dataset import files
from redqueen.store.dataset.files import fixed_tasks
from redqueen.store.dataset.forms import OwnTasks, load_own_tasks
from tests.cli.running import redqueen

MOD = "def f(x):\n    return x % 7 + len(str(x)) * 2"
CODE = "def add(a, b):\n    return a + b"
SUM = "print(sum(map(int, input().split())))"
ASSERTS = ["assert add(1, 2) == 3", "assert add(2, 2) == 4"]
MBPP = {"task_id": 1, "text": "Add.", "code": CODE, "test_list": ASSERTS, "test_setup_code": ""}
CASES = {"inputs": ["1 2\n", "2 2\n"], "outputs": ["3\n", "4\n"]}
CALLS = {"fn_name": "add", "inputs": [[1, 2], [2, 2]], "outputs": [[3], [4]]}
CONTEST = [{"input": "1 2", "output": "3"}, {"input": "2 2", "output": "4"}]
METHOD = [{"input": "1\n2", "output": "3"}, {"input": "2\n2", "output": "4"}]
START = "class Solution:\n    def add(self, a, b):"
ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "tasks export": (
        {"program": MOD, "inputs": ["9"], "outputs": ["4"]},
        "python",
    ),
    "CRUXEval": ({"code": MOD, "input": "9", "output": "4"}, "python"),
    "rows for passes_tests": ({"prompt": "Add.", "tests": ASSERTS, "solution": CODE}, "code_t"),
    "MBPP": (MBPP, "code_t"),
    "MBPP+": (
        {"prompt": f'"""\nAdd.\n{ASSERTS[0]}\n"""', "canonical_solution": CODE, "assertion": "\n".join(ASSERTS)},
        "code_t",
    ),
    "HumanEval": (
        {
            "prompt": "def add(a, b):\n    ''' Add. '''\n",
            "canonical_solution": "    return a + b\n",
            "entry_point": "add",
            "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(2, 2) == 4\n",
        },
        "code_t",
    ),
    "APPS, TACO": (
        {"question": "Add.", "solutions": json.dumps(["1 / 0", SUM]), "input_output": json.dumps(CASES)},
        "code_t",
    ),
    "LiveCodeBench": ({"question_content": "Add.", "public_test_cases": json.dumps(CONTEST)}, "code_t"),
    "GSM8K, MATH": ({"question": "1 + 2?", "answer": "It is 3.\n#### 3"}, "maths"),
}


EXPORTED = {"kind": "code_t", "message": "Add.", "inputs": ["add(1, 2)", "add(2, 2)"], "outputs": ["3", "4"]}
GIVEN: list[tuple[object, int]] = [
    (json.dumps(ASSERTS), 2),
    ("\n".join(ASSERTS), 2),
    (f"import math\n\n{ASSERTS[0]}\nassert add(2, 2) == 4, 'wrong'\nassert math.isclose(add(0, 1), 1)\n", 2),
    (json.dumps([{"function": "add", "arguments": [1, 2], "expected": 3}, *ASSERTS[1:]]), 2),
]


def loaded(folder: Path, verifier: LocalVerifier, *rows: object) -> OwnTasks:
    file = folder / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return load_own_tasks(file, verifier)


def only(own: OwnTasks) -> Task:
    assert own.refusals == []
    (task,) = own.tasks
    return task


@pytest.mark.parametrize("like", ROWS)
def test_each_form_is_told_by_its_columns(like: str, tmp_path: Path, verifier: LocalVerifier) -> None:
    row, kind = ROWS[like]
    own = loaded(tmp_path, verifier, row)
    assert own.form.like == like
    assert only(own).kind == kind


@pytest.mark.parametrize(
    "answer",
    [
        {"answer": "", "solution": r"It is \boxed{3}."},
        {"final_answer": "3"},
        {"final_answer": 3},
        {"final_answer": ["3"]},
        {"final_answer": "", "answer": "3"},
    ],
)
def test_the_answer_of_a_question_is_where_the_row_has_it(
    answer: dict[str, object], tmp_path: Path, verifier: LocalVerifier
) -> None:
    assert only(loaded(tmp_path, verifier, {"question": "1 + 2?", **answer})).pairs[0].output == "['3']"


@pytest.mark.parametrize(("tests", "count"), GIVEN)
def test_one_text_may_hold_all_tests(tests: object, count: int, tmp_path: Path, verifier: LocalVerifier) -> None:
    task = only(loaded(tmp_path, verifier, {"prompt": "Add.", "tests": tests, "solution": CODE}))
    assert len(task.pairs) == count


@pytest.mark.parametrize("program", ["", CODE])
def test_an_exported_task_with_tests_is_one_again(program: str, tmp_path: Path, verifier: LocalVerifier) -> None:
    own = loaded(tmp_path, verifier, {**EXPORTED, "program": program})
    assert (own.form.name, own.form.like) == ("a prompt with tests", "tasks export")
    task = only(own)
    assert (task.kind, task.program, task.message) == ("code_t", program, "Add.")
    question = {"kind": "maths", "program": "1 + 2?", "inputs": [""], "outputs": ["['3']"]}
    task = only(loaded(tmp_path, verifier, question))
    assert (task.kind, task.program, task.pairs[0].output) == ("maths", "1 + 2?", "['3']")


def test_a_script_keeps_the_first_program_that_passes(tmp_path: Path, verifier: LocalVerifier) -> None:
    task = only(loaded(tmp_path, verifier, ROWS["APPS, TACO"][0]))
    assert task.program == SUM
    assert task.pairs[0].input == "stdin('1 2\\n')"


def test_functions_of_contests_are_called_with_values_of_json(tmp_path: Path, verifier: LocalVerifier) -> None:
    apps = {"question": "Add.", "solutions": json.dumps([CODE]), "input_output": json.dumps(CALLS)}
    assert only(loaded(tmp_path, verifier, apps)).pairs[0].input == "add(1, 2)  # json"
    code = {"question_content": "Add.", "starter_code": START, "metadata": json.dumps({"func_name": "add"})}
    task = only(loaded(tmp_path, verifier, {**code, "public_test_cases": json.dumps(METHOD)}))
    assert [pair.input for pair in task.pairs] == ["Solution().add(1, 2)  # json", "Solution().add(2, 2)  # json"]
    assert verifier.judge_answer(answer_to(task, f"{START}\n        return a + b")).result().status == "correct"


def test_truth_is_asked_for_as_an_equation(tmp_path: Path, verifier: LocalVerifier) -> None:
    code = "def odd(n):\n    return n % 2 == 1"
    tests = ["assert odd(3)", "assert not odd(4)", "assert odd(5) is True", "assert abs(odd(1) - 1) < 0.1"]
    own = loaded(tmp_path, verifier, {"text": "Odd?", "code": code, "test_list": tests})
    pairs = [(pair.input, pair.output) for pair in only(own).pairs]
    assert pairs == [("odd(3)", "True"), ("odd(4)", "False"), ("odd(5)", "True")]
    assert own.notes[0].startswith("left out: 1 test of 1 row (first row 1)")


def test_tests_in_a_list_are_read_as_those_of_a_text_and_what_cannot_be_judged_is_left_out(
    tmp_path: Path, verifier: LocalVerifier
) -> None:
    code = "def odd(n):\n    return n % 2 == 1"
    loop = "for n in range(3):\n    assert odd(n) == (n == 1)"
    asserts = ["assert odd(3)", "assert not odd(4)", "assert abs(odd(1) - 1) < 0.1"]
    tests = [*asserts, {"stdin": "1", "stdout": "2"}, 7, loop]
    own = loaded(tmp_path, verifier, {"prompt": "Odd?", "solution": code, "tests": tests})
    assert [(pair.input, pair.output) for pair in only(own).pairs] == [("odd(3)", "True"), ("odd(4)", "False")]
    assert own.notes[0].startswith("left out: 4 tests of 1 row (first row 1)")


def test_each_test_beyond_the_most_is_counted(tmp_path: Path, verifier: LocalVerifier) -> None:
    tests = [f"assert add({n}, 0) == {n}" for n in range(300)]
    own = loaded(tmp_path, verifier, {"prompt": "Add.", "tests": tests, "solution": CODE})
    assert len(only(own).pairs) == 256
    assert own.notes[0].startswith("left out: 44 tests of 1 row (first row 1)")
    assert own.notes[0].endswith("more than 256 tests")


def test_a_task_of_another_language_is_refused_by_its_kind(tmp_path: Path, verifier: LocalVerifier) -> None:
    row = {"kind": "expr_o", "program": "x + y", "inputs": ["1, 2"], "outputs": ["3"], "message": ""}
    own = loaded(tmp_path, verifier, row)
    assert list(own.refused.values()) == [
        "its kind expr_o is not one of Python: play the file as it is, by game.tasks=FILE"
    ]


def test_an_assertion_in_a_loop_is_left_out_and_the_others_are_kept(tmp_path: Path, verifier: LocalVerifier) -> None:
    text = "\n".join([*ASSERTS, "for n in range(3):\n    assert add(n, 0) == n"])
    text += "\ndef one(y):\n    assert add(y, 1) == 3\nassert add(*[i for i in (2, 5)]) == 7"
    assert len(only(loaded(tmp_path, verifier, {"prompt": "Add.", "tests": text, "solution": CODE})).pairs) == 3


def test_a_program_that_nests_without_end_and_signs_that_no_screen_shows(
    tmp_path: Path, verifier: LocalVerifier
) -> None:
    row = {"prompt": "Add\r\nall\u00a0of them.", "tests": ASSERTS}
    assert only(loaded(tmp_path, verifier, {**row, "solution": CODE})).message == "Add\nall of them."
    (refused,) = loaded(tmp_path, verifier, MBPP, {**row, "solution": "[" * 1500}).refusals
    assert "its own program fails its tests" in refused


def test_a_line_without_end_is_one_bad_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MAX_LINE_BYTES", 64)
    long = tmp_path / "rows.jsonl"
    long.write_text('{"a": 1}\n{"a": "' + "x" * 1000 + '"}\n{"a": 3}\n')
    assert list(files.read_rows(long)) == [{"a": 1}, "it is longer than 64 bytes", {"a": 3}]


BAD: dict[str, dict[str, Any]] = {
    "its columns (a, b) are of no form": {"a": 1, "b": 2},
    "add(1, 2) gives 3, and the file says 5": {**MBPP, "test_list": ["assert add(1, 2) == 5", ASSERTS[1]]},
    "its own program fails its tests: error: NameError": {**MBPP, "code": "x"},
    "1 of its tests can be judged, and a task needs 2": {**MBPP, "test_list": ASSERTS[:1]},
    "test_setup_code": {**MBPP, "test_setup_code": "import x"},
    '"test_list" must be a list of texts': {**MBPP, "test_list": "assert add(1, 2) == 3"},
    "its prompt is empty": {**MBPP, "text": " "},
    "is no JSON": {"question": "Add.", "input_output": "{"},
    '"input_output" must be a mapping': {"question": "Add.", "input_output": "[1]"},
    "must be lists of equal length": {"question": "Add.", "input_output": {"inputs": ["1"], "outputs": []}},
    "must be a list of tests": {"question_content": "Add.", "public_test_cases": "[3]"},
    "it is of another form": {"question": "1 + 2?", "answer": "#### 3"},
    '"tests" is one text, neither a JSON list nor lines': {"prompt": "Add.", "tests": "add(1, 2) gives 3"},
    "its tests do not parse": {"prompt": "Add.", "tests": "assert add(1, 2) ==="},
    '"tests" is null: give it a value': {"prompt": "Add.", "tests": None},
    "test 1: None is no test": {"prompt": "Add.", "tests": [ASSERTS[0], None]},
    '"answer" or "solution" or "final_answer" is null': {"question": "1 + 2?", "answer": None},
    "is packed": {"question_content": "Add.", "public_test_cases": "[]", "private_test_cases": "eJxr"},
}


def test_each_bad_row_is_refused_in_one_line_that_names_it(tmp_path: Path, verifier: LocalVerifier) -> None:
    own = loaded(tmp_path, verifier, MBPP, *BAD.values())
    assert len(own.tasks) == 1
    for number, reason in enumerate(BAD, 2):
        (line,) = [line for line in own.refusals if line.startswith(f"refused: row {number}: ")]
        assert reason in line


@pytest.mark.slow
def test_what_is_imported_is_read_by_a_run_and_by_the_importer(tmp_path: Path, verifier: LocalVerifier) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(MBPP))
    out = tmp_path / "tasks.jsonl"
    done = redqueen("tasks", "import", str(tmp_path / "rows.jsonl"), "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "1 row: a prompt with tests (as MBPP)" in done.stdout
    (task,) = fixed_tasks(out)
    assert (task.kind, task.message, task.program) == ("code_t", "Add.", CODE)
    assert load_own_tasks(out, verifier).tasks[0].pairs == task.pairs
    done = redqueen("tasks", "import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "seeds.txt"))
    assert done.returncode == 2
    assert "need a name that ends in .jsonl" in done.stderr
    (tmp_path / "programs.jsonl").write_text(json.dumps({"program": MOD, "inputs": ["9"], "outputs": ["4"]}))
    done = redqueen("tasks", "import", str(tmp_path / "programs.jsonl"), "--out", str(tmp_path / "seeds.jsonl"))
    assert done.returncode == 0, done.stderr
    assert f"which is text: it is {tmp_path / 'seeds.txt'}" in done.stdout
    assert MOD in (tmp_path / "seeds.txt").read_text()


MATHS: list[tuple[dict[str, Any], list[str], list[str]]] = [
    (
        {"question": "2?", "answer": "So.\n#### 1,003"},
        ["1003", r"It is \boxed{1003}", "#### 1003", "#### 1003\nI hope it helps.", "#### Final answer\n\n1003"],
        ["1004", "x"],
    ),
    ({"problem": "Half?", "solution": r"So \boxed{\frac{1}{2}}."}, ["0.5", r"\boxed{1/2}"], [r"0.5 or \boxed{2}"]),
    ({"problem": "Roots?", "answer": 27.0}, ["27"], ["28"]),
]


@pytest.mark.parametrize(("row", "right", "wrong"), MATHS)
def test_mathematics_is_judged_by_the_grader(
    row: dict[str, Any], right: list[str], wrong: list[str], tmp_path: Path, verifier: LocalVerifier
) -> None:
    pytest.importorskip("math_verify")
    task = only(loaded(tmp_path, verifier, row))
    for status, texts in (("correct", right), ("wrong", wrong)):
        for text in texts:
            assert verifier.judge_answer(answer_to(task, text)).result().status == status, text
    (refused,) = loaded(tmp_path, verifier, {"question": "Why?", "answer": "Because\nof that."}).refusals
    assert "it has no answer that can be judged" in refused
