"""LiveCodeBench's files, in a small one of our own: packed tests, functions and programs."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from redqueen.errors import UserError
from redqueen.evals.benchmark import ProblemSet
from redqueen.evals.registry import load
from redqueen.extras.benchmarks.livecodebench import LIVECODEBENCH, LiveCodeBenchGrader, load_plain, unpacked_tests
from tests.evals import rows


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ProblemSet:
    folder = tmp_path_factory.mktemp("data")
    rows.write(folder / "livecodebench.jsonl", rows.LIVECODEBENCH)
    return load(LIVECODEBENCH, folder, None)


def test_public_tests_come_first_and_private_ones_are_unpacked(small: ProblemSet) -> None:
    function, program = small.problems
    assert function.data["function"] == "double"
    assert [test["input"] for test in function.data["tests"]] == ["[1, 2]", "[]", "[5]"]
    assert program.data["function"] is None
    assert [test["output"] for test in program.data["tests"]] == ["2 4\n", "14"]
    assert (small.available, small.whole) == (2, False)


def test_a_prompt_shows_the_start_of_a_function_and_no_test_that_is_private(small: ProblemSet) -> None:
    function, program = small.problems
    asked = LIVECODEBENCH.pose(function, "chat")
    assert asked.chat
    assert "def double(self, numbers):" in asked.text
    assert "standard input" in LIVECODEBENCH.pose(program, "completion").text
    assert LIVECODEBENCH.read(program, "chat", "Like this:\n```python\nprint(1)\n```\n") == "print(1)\n"


ANNOTATED = """from __future__ import annotations
from dataclasses import dataclass
from typing import ClassVar
@dataclass
class Twice:
    made: ClassVar[int] = 0
    numbers: list[int] = None
    def all(self):
        return [2 * number for number in self.numbers]
"""


@pytest.mark.integration
def test_functions_and_programs_are_judged(small: ProblemSet) -> None:
    answers = {
        rows.DOUBLE + "return [2 * number for number in numbers]": ("correct", "wrong"),
        rows.DOUBLE + "return numbers": ("wrong", "wrong"),
        "input()\nprint(*[2 * int(word) for word in input().split()])": ("error", "correct"),
        "print('2 4')": ("error", "wrong"),
        ANNOTATED + rows.DOUBLE + "return Twice(numbers).all()": ("correct", "wrong"),
        ANNOTATED + "input()\nprint(*Twice(map(int, input().split())).all())": ("error", "correct"),
    }
    with LiveCodeBenchGrader() as grader:
        for answer, statuses in answers.items():
            grades = [grader.submit(problem, answer) for problem in small.problems]
            assert tuple(grade.result().status for grade in grades) == statuses, answer


def test_a_pickle_that_names_anything_is_refused_and_nothing_is_called(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
            return eval, (f"open({str(tmp_path / 'harm')!r}, 'w')",)

    for harm in (Harm(), [1, {"a": Harm()}], print, Path("x")):
        with pytest.raises(UserError, match="only plain data are read"):
            load_plain(pickle.dumps(harm))
    assert list(tmp_path.iterdir()) == []
    plain = {"a": [1, 2.5, None, True], "b": ("x", b"y")}
    assert load_plain(pickle.dumps(plain)) == plain


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_text_is_read_by_every_protocol(protocol: int) -> None:
    text = "ä\n" * 100_000
    assert load_plain(pickle.dumps(text, protocol)) == text


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x80\x02X\x02\x00\x00\x00[]r\xff\xff\xff\x0f.", "are not those up to 268435455"),
        (b"\x80\x02X\x02\x00\x00\x00[]q\xff.", "are not those up to 255"),
        (b"V[]\np99999999\n.", "are not those up to 99999999"),
        (b"\x80\x04" + b"]\x94" * 2_000 + b".", "instructions"),
        (b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b".", "instructions"),
    ],
)
def test_a_pickle_that_takes_more_memory_than_its_length_says_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(UserError, match=why):
        load_plain(data)


@pytest.mark.parametrize(
    "damaged",
    [
        "[" * 200_000,
        base64.b64encode(zlib.compress(pickle.dumps("[" * 200_000))).decode(),
        "no base64 at all!",
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(b"no pickle")).decode(),
        base64.b64encode(zlib.compress(pickle.dumps("no JSON"))).decode(),
        base64.b64encode(zlib.compress(pickle.dumps("[]"))[:-3]).decode(),
        json.dumps([{"input": 1, "output": "1", "testtype": "stdin"}]),
        json.dumps([{"input": "1", "output": "1", "testtype": "other"}]),
    ],
)
def test_damaged_tests_are_errors(damaged: str) -> None:
    with pytest.raises((UserError, ValueError)):
        unpacked_tests(damaged)


def test_tests_and_rows_that_are_nested_too_deeply_are_one_line(tmp_path: Path) -> None:
    row = {**rows.LIVECODEBENCH[0], "metadata": "[" * 200_000}
    rows.write(tmp_path / "livecodebench.jsonl", [row])
    with pytest.raises(UserError, match=r"row 1 of livecodebench\.jsonl is no row of LiveCodeBench: RecursionError"):
        load(LIVECODEBENCH, tmp_path, None)
    (tmp_path / "livecodebench.jsonl").write_text("[" * 200_000)
    with pytest.raises(UserError, match=r"cannot read .*livecodebench\.jsonl: maximum recursion depth"):
        load(LIVECODEBENCH, tmp_path, None)


def test_a_damaged_row_is_one_line_with_its_number(tmp_path: Path) -> None:
    rows.write(tmp_path / "livecodebench.jsonl", [rows.LIVECODEBENCH[0], {"question_id": "x"}])
    with pytest.raises(UserError, match=r"row 2 of livecodebench.jsonl is no row of LiveCodeBench: KeyError"):
        load(LIVECODEBENCH, tmp_path, None)
