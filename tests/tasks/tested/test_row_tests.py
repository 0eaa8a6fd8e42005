"""The tests of a data set's rows, also as Arrow gives them back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from redqueen.extras.rewards import check_tests
from redqueen.extras.rewards.trl import passes_tests
from redqueen.extras.rewards.verl import compute_score
from redqueen.jail import Call, Script
from redqueen.tasks.tested.tests import test_of as read_test
from redqueen.tasks.tested.tests import tests_of as read_tests

ADD = {"function": "add", "arguments": [1, [2]], "expected": {"a": 1}}


@pytest.mark.parametrize(
    ("test", "read"),
    [
        ("assert f() == 1", "assert f() == 1"),
        (json.dumps(ADD), Call("add", (1, [2]), {"a": 1}, json=True)),
        (ADD, Call("add", (1, [2]), {"a": 1}, json=True)),
        ({**ADD, "arguments": "[1, [2]]", "expected": '{"a": 1}'}, Call("add", (1, [2]), {"a": 1}, json=True)),
        ({**ADD, "arguments": '["x"]', "expected": '"y"'}, Call("add", ("x",), "y", json=True)),
        ({**ADD, "arguments": ["x"], "expected": "1"}, Call("add", ("x",), "1", json=True)),
        ({**ADD, "arguments": "[3.0]", "expected": None}, Call("add", (3.0,), None, json=True)),
        ('{"function": "f", "arguments": [{"a": null}, 2.0], "expected": 1}', Call("f", ({"a": None}, 2.0), 1, True)),
        ({**ADD, "arguments": np.array([1, 2]), "expected": np.int64(3)}, Call("add", (1, 2), 3, json=True)),
        ({"stdin": "1", "stdout": "2", "function": None}, Script("1", "2")),
        ('{"stdin": "1", "stdout": "2"}', Script("1", "2")),
        ({"stdout": "2"}, Script("", "2")),
        (Script("1", "2"), Script("1", "2")),
    ],
)  # fmt: skip
def test_a_test_of_a_row_in_each_of_its_forms(test: Any, read: Any) -> None:
    assert read_test(test) == read
    assert read_tests([test], None) == [read]


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ([], "without a test"),
        (None, "must be a list, or a JSON text of one, not None"),
        ("assert f() == 1", "is no JSON"),
        ('{"function": "f"}', "must be a list"),
        (["assert f(1)"], "test 0: 'assert f"),
        (["assert f() == 1", {"input": 1}], "test 1: {'input': 1} is no test"),
        (["{"], "test 0: a test is no JSON"),
        ([{"function": "f", "arguments": [1]}], "is no test"),
        ([{**ADD, "stdout": "1"}], "is no test"),
        ([{**ADD, "arguments": 3}], "must be a list, or a JSON text of one, not a int"),
        ([{**ADD, "arguments": "abc"}], "the text of `arguments` is no JSON"),
        ([{**ADD, "arguments": "{}"}], "must be a list"),
        ([{**ADD, "arguments": "[1]", "expected": "abc"}], "the text of `expected`, beside"),
        ([{**ADD, "arguments": [{"a": 1, "b": None}]}], "with which Arrow fills"),
        ([{**ADD, "expected": [{"a": None}]}], "with which Arrow fills"),
        ([{**ADD, "arguments": [[3.0]]}], "may have been an int"),
        ([{"stdin": ["1"], "stdout": "1"}], "stdin must be a text, not a list"),
        ([{"stdin": "1", "stdout": 1}], "stdout must be a text, not a int"),
        ([{**ADD, "expected": range(3)}], "range is not a plain builtin value"),
        ([None], "None is no test"),
    ],
)
def test_a_row_with_what_is_no_test_is_refused_and_named(tests: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=f"row 1: .*{reason}"):
        check_tests([["assert f() == 1"], tests])
    with pytest.raises(ValueError, match=f"row 0: .*{reason}"):
        passes_tests(["x = 1"], tests=[tests])


def test_a_column_says_how_many_rows_are_faulty() -> None:
    check_tests([["assert f() == 1"], '["assert f() == 1"]', np.array(["assert f() == 1"])])
    with pytest.raises(ValueError, match=r"row 1: .* \(2 other rows are faulty too\)"):
        check_tests([["assert f() == 1"], [], [], []])


def test_the_rows_of_the_documentation_pass_through_a_data_set() -> None:
    rows = [
        ["assert add(1, 2) == 3", json.dumps({"stdin": "1 2", "stdout": "3"})],
        [json.dumps({"function": "add", "arguments": [{"a": 1}], "expected": 1})],
        [json.dumps({"function": "add", "arguments": [3], "expected": [1, "a", None]})],
    ]
    data = Dataset.from_list([{"prompt": "p", "tests": tests} for tests in rows])
    check_tests(data["tests"])
    check_tests(data.with_format("numpy")["tests"])
    programs = [
        "def add(a=0, b=0):\n    return a + b\nif __name__ == '__main__':\n    print(add(*map(int, input().split())))",
        "def add(d):\n    return len(d)",
        "def add(n):\n    return 1, 'a', [None] * (n - 3) or None",
    ]
    assert passes_tests(programs, tests=data["tests"]) == [1.0, 1.0, 1.0]
    whole = Dataset.from_list([{"tests": json.dumps([json.loads(tests[-1])])} for tests in rows])
    assert passes_tests(programs, tests=whole["tests"]) == [1.0, 1.0, 1.0]


def test_what_arrow_makes_of_values_of_several_types_is_refused_and_not_judged() -> None:
    for values in ([{"a": 1}, {"b": 2}], [3, 2.5]):
        tests = [[{"function": "f", "arguments": [value], "expected": 1}] for value in values]
        data = Dataset.from_list([{"tests": each} for each in tests])
        with pytest.raises(ValueError, match=r"row 0: test 0: .*as a JSON text"):
            check_tests(data["tests"])


def test_verl_reads_the_same_tests() -> None:
    truth = json.dumps({"tests": [{"function": "Solution.f", "arguments": [1], "expected": [1, 1]}]})
    text = "```python\nclass Solution:\n    def f(self, a):\n        return a, a\n```\nFor example:\n```\n(1, 1)\n```"
    assert compute_score("x", text, truth)["score"] == 1.0
    with pytest.raises(ValueError, match="row 0: test 0"):
        compute_score("x", text, json.dumps({"tests": ["assert f(1)"]}))
