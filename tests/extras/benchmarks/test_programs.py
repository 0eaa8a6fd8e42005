"""LiveCodeBench and CRUXEval on problems of our own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from redqueen.evals.grader import Problem
from redqueen.extras.benchmarks.cruxeval import CruxEvalGrader
from redqueen.extras.benchmarks.livecodebench import LiveCodeBenchGrader, same_text
from redqueen.jail import Sandbox

FUNCTION = {
    "function": "pairs",
    "tests": [
        {"input": "[1, 2]\n3", "output": "[[1, 3], [2, 3]]", "testtype": "functional"},
        {"input": "[]\n3", "output": "[]", "testtype": "functional"},
    ],
}
SCRIPT = {
    "function": None,
    "tests": [
        {"input": "2\n1 2\n3 4\n", "output": "3\n7\n", "testtype": "stdin"},
        {"input": "1\n5 5\n", "output": "10", "testtype": "stdin"},
    ],
}


@pytest.fixture(scope="module")
def live(sandbox: Sandbox) -> Iterator[LiveCodeBenchGrader]:
    with LiveCodeBenchGrader(sandbox) as shared:
        yield shared


def method(body: str) -> str:
    return f"class Solution:\n    def pairs(self, xs: List[int], y: int) -> List[List[int]]:\n        {body}\n"


FUNCTIONS = {
    "right": (method("return [[x, y] for x in xs]"), "correct", ""),
    "tuple": (method("return tuple([x, y] for x in xs)"), "correct", ""),
    "wrong": (method("return [[x, x] for x in xs]"), "wrong", "test 0"),
    "no method": ("class Solution:\n    pass", "error", "test 0: AttributeError"),
    "no class": ("def pairs(xs, y):\n    return xs", "error", "test 0: NameError"),
    "no program": ("class Solution", "malformed", "test 0: SyntaxError"),
}


@pytest.mark.parametrize(("program", "status", "detail"), FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_a_method_is_called_with_json(live: LiveCodeBenchGrader, program: str, status: str, detail: str) -> None:
    grade = live.submit(Problem(id="1", benchmark="livecodebench", prompt="", data=FUNCTION), program).result()
    assert grade.status == status
    assert grade.detail.startswith(detail)


READS = "for _ in range(int(input())):\n    a, b = map(int, input().split())\n    print(a + b)"
SCRIPTS = {
    "a mark in front": (f"\ufeff{READS}", "correct", ""),
    "input": (READS, "correct", ""),
    "standard input": ("import sys\nd = [*map(int, sys.stdin.read().split())][1:]\n", "wrong", "test 0"),
    "bytes": (
        "import sys\nn, *d = map(int, sys.stdin.buffer.read().split())\n"
        "sys.stdout.buffer.write(b'\\n'.join(b'%d' % (a + b) for a, b in zip(d[::2], d[1::2])))",
        "correct",
        "",
    ),
    "file 0": (
        "n, *d = map(int, open(0).read().split())\nfor i in range(n): print(d[2 * i] + d[2 * i + 1])",
        "correct",
        "",
    ),
    "main": (
        f"def main():\n    {READS.replace(chr(10), chr(10) + '    ')}\nif __name__ == '__main__':\n    main()",
        "correct",
        "",
    ),
    "exit": (READS + "\nexit()", "correct", ""),
    "decimals": (READS.replace("a + b", "f'{a + b}.00 '"), "correct", ""),
    "another file": ("print(open('/etc/passwd').read())", "error", "test 0: PermissionError"),
    "more input": (READS + "\ninput()", "error", "test 0: EOFError"),
    "no program": ("print(", "malformed", "test 0: SyntaxError"),
    "a flood": ("while True:\n    print('x' * 10**6)", "error", "test 0: OutputError"),
    "a large output": ("print('x' * 5 * 10**6)", "oversize", "test 0"),
}


@pytest.mark.parametrize(("program", "status", "detail"), SCRIPTS.values(), ids=SCRIPTS.keys())
def test_a_script_reads_standard_input(live: LiveCodeBenchGrader, program: str, status: str, detail: str) -> None:
    grade = live.submit(Problem(id="1", benchmark="livecodebench", prompt="", data=SCRIPT), program).result()
    assert grade.status == status, grade
    assert grade.detail.startswith(detail)


LONG = "1" + "0" * 5_000
CLASS = "class Solution:\n    def f(self, x):"


@pytest.mark.parametrize(
    ("data", "program", "status"),
    [
        ({"input": LONG, "output": LONG + "0"}, "class Solution:\n    def f(self, x): return x * 10", "correct"),
        ({"input": f"[{LONG}]", "output": f"[-{LONG}]"}, f"{CLASS} return [-x[0]]", "correct"),
        ({"input": LONG, "output": LONG}, "class Solution:\n    def f(self, x): return x + 1", "wrong"),
        ({"input": "1", "output": "{"}, "class Solution:\n    def f(self, x): return x", "infra_error"),
        ({"input": "x", "output": "1"}, "class Solution:\n    def f(self, x): return x", "infra_error"),
    ],
)  # fmt: skip
def test_values_of_json_may_have_any_length(live: LiveCodeBenchGrader, data: Any, program: str, status: str) -> None:
    problem = Problem(id="1", benchmark="livecodebench", prompt="", data={"function": "f", "tests": [data]})
    assert live.submit(problem, program).result().status == status


@pytest.mark.parametrize(
    "program",
    [
        "print(int(input()) * 10)",
        "print(10**5001)",
        "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer)\nprint(input() + '0')",
        "import sys\nprint(sys.__stdin__.readline().strip() + '0', file=sys.__stdout__)",
        "print(open(0, 'rb').read().decode() + '0', file=open(1, 'w'))",
    ],
)
def test_a_script_has_pythons_streams_and_ints(live: LiveCodeBenchGrader, program: str) -> None:
    data = {"function": None, "tests": [{"input": LONG, "output": LONG + "0"}]}
    grade = live.submit(Problem(id="1", benchmark="livecodebench", prompt="", data=data), program).result()
    assert grade.status == "correct", grade


def test_printed_lines_are_compared_without_white_space_and_as_numbers() -> None:
    assert same_text("1 2 \n3\n\n", " 1 2\n3")
    assert same_text("1.0 2", "1 2.00")
    assert not same_text("1 2", "1\n2")
    assert not same_text("Yes", "yes")
    assert not same_text("1", "1 1")
    assert same_text("NaN", "NaN")


CRUX: dict[str, Any] = {"code": "PAIR = 1, 2\ndef f(x, y):\n    return [x, x + y]", "input": "1, 2", "output": "[1, 3]"}


@pytest.mark.parametrize(
    ("kind", "answer", "status"),
    [
        ("output", "[1, 3]", "correct"),
        ("output", " [1,3] ", "correct"),
        ("output", "[1, 4]", "wrong"),
        ("output", "[1, 1 + 2]", "malformed"),
        ("output", "f(1, 2)", "malformed"),
        ("input", "1, 2", "correct"),
        ("input", "f(1, 2)", "correct"),
        ("input", "1, 3", "wrong"),
        ("input", "1", "error"),
        # The benchmark has rows whose arguments are no literals.
        ("input", "int('1'), (lambda x: x)(2)", "correct"),
        ("input", "*PAIR", "correct"),
        ("input", "1, 2) and f(1, 2", "malformed"),
        ("input", "1, '", "malformed"),
        ("input", "1, __import__('os')", "forbidden"),
        ("input", "1, (yield)", "unsupported"),
        ("input", "(" * 500 + "1", "malformed"),
    ],
)
def test_answers_to_cruxeval_are_a_literal_and_arguments(sandbox: Sandbox, kind: str, answer: str, status: str) -> None:
    with CruxEvalGrader(sandbox) as grader:
        problem = Problem(id="1", benchmark="cruxeval", prompt="", data={**CRUX, "kind": kind})
        assert grader.grade(problem, answer).status == status
