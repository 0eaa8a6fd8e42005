"""Solutions of problems of our own under evalplus' rules: right, wrong, hostile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redqueen.evals.grader import Problem
from redqueen.extras.benchmarks import evalplus
from redqueen.extras.benchmarks.evalplus import EvalPlusGrader, reference
from redqueen.jail import GAME, Sandbox

pytestmark = pytest.mark.integration

ROW: dict[str, Any] = {
    "task_id": "HumanEval/x",
    "prompt": 'def double(xs):\n    """Returns each number twice as large."""\n',
    "canonical_solution": "    return [2 * x for x in xs]\n",
    "entry_point": "double",
    "base_input": [[[1, 2]], [[]]],
    "plus_input": [[[number]] for number in range(300)],
    "atol": 0,
}
LARGE = {**ROW, "base_input": [[[1] * 20_000]], "plus_input": [[[10**4_000]]]}


def problem(row: dict[str, Any]) -> Problem:
    return Problem(id=row["task_id"], benchmark="humaneval+", prompt=row["prompt"], data=row)


@pytest.fixture(scope="module")
def grader(sandbox: Sandbox) -> Iterator[EvalPlusGrader]:
    with EvalPlusGrader(sandbox) as shared:
        yield shared


WRONG = {
    "the reference": (reference(ROW), "correct", ""),
    "another way": ("def double(xs):\n    return list(map(lambda x: x + x, xs))", "correct", ""),
    "floats that are equal": ("def double(xs):\n    return [2.0 * x for x in xs]", "correct", ""),
    "empty body": (ROW["prompt"] + "    pass\n", "wrong", "base input 0"),
    "constant": ("def double(xs):\n    return [2, 4]", "wrong", "base input 1"),
    "off by one": ("def double(xs):\n    return [2 * x + (x == 299) for x in xs]", "wrong", "plus input 299"),
    "tuple": ("def double(xs):\n    return tuple(2 * x for x in xs)", "wrong", "base input 0"),
    "generator": ("def double(xs):\n    yield from (2 * x for x in xs)", "unsupported", "base: generator"),
    "no program": ("def double(xs:\n", "malformed", "base: SyntaxError"),
    "another name": ("def triple(xs):\n    return xs", "error", "base: NameError"),
    "an error": ("def double(xs):\n    return xs[0]", "wrong", "base input 0"),
    "a later error": (
        "def double(xs):\n    return [2 * x for x in xs] if xs else 1 / 0",
        "error",
        "base: ZeroDivision",
    ),
    "forbidden module": ("import socket\ndef double(xs):\n    return xs", "forbidden", "base: import of socket"),
    "exit": ("import sys\ndef double(xs):\n    sys.exit(0)", "error", "base: SystemExit"),
    "always equal": (
        "class Yes(list):\n    def __eq__(self, other):\n        return True\ndef double(xs):\n    return Yes()",
        "unsupported",
        "base: Yes",
    ),
    "huge output": ("def double(xs):\n    return 'x' * 10**8", "wrong", "base input 0"),
    "huge memory": ("def double(xs):\n    return bytearray(10**10)", "memory", "base: MemoryError"),
    "a flood": ("def double(xs):\n    print('x' * 10**7)\n    return [2 * x for x in xs]", "correct", ""),
}


@pytest.mark.parametrize(("program", "status", "detail"), WRONG.values(), ids=WRONG.keys())
def test_a_program_gets_its_grade(grader: EvalPlusGrader, program: str, status: str, detail: str) -> None:
    grade = grader.submit(problem(ROW), program).result()
    assert grade.status == status
    assert grade.detail.startswith(detail)
    assert bool(grade.detail) == (status != "correct")


@pytest.mark.slow
def test_an_endless_loop_ends_at_the_limit(grader: EvalPlusGrader) -> None:
    grade = grader.grade(problem(ROW), "def double(xs):\n    while True:\n        pass")
    assert grade.status == "timeout"


def test_large_outputs_are_compared_by_their_digests(grader: EvalPlusGrader) -> None:
    row = {**LARGE, "task_id": "large"}
    assert grader.grade(problem(row), reference(ROW)).status == "correct"
    grade = grader.grade(problem(row), "def double(xs):\n    return [2 * x for x in xs[:-1]] + [3]")
    assert (grade.status, grade.detail) == ("wrong", "base input 0")


def test_a_reference_that_fails_is_no_verdict(grader: EvalPlusGrader) -> None:
    row = {**ROW, "task_id": "broken", "canonical_solution": "    return 1 / 0\n"}
    grade = grader.grade(problem(row), reference(ROW))
    assert grade.status == "infra_error"
    assert grade.detail == "the reference of broken: error: ZeroDivisionError at line 3 on input 0"


def test_expected_outputs_are_kept_beside_the_data(sandbox: Sandbox, tmp_path: Path) -> None:
    kept = tmp_path / "expected.sqlite"
    with EvalPlusGrader(sandbox, kept) as first:
        expected = first.expected(problem(ROW))
    with EvalPlusGrader(sandbox, kept) as second:
        again = second._file.read(evalplus.key_of(ROW))
        assert again == expected
        assert second._file.read(evalplus.key_of({**ROW, "prompt": ""})) is None
    kept.write_bytes(kept.read_bytes().replace(b"base", b"BASE"))
    with EvalPlusGrader(sandbox, kept) as third:
        assert third._file.read(evalplus.key_of(ROW)) is None


def test_the_grader_refuses_the_sandbox_of_the_game() -> None:
    with Sandbox(GAME, workers=1) as game, pytest.raises(ValueError, match="profile BENCHMARKS"):
        EvalPlusGrader(game)
