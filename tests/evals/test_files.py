"""Data: from a folder, with its checksum, or one clear line."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from redqueen.config import Config
from redqueen.errors import UserError
from redqueen.evals.benchmark import Benchmark
from redqueen.evals.registry import chosen, groups, load, load_benchmarks, names, read
from redqueen.extras.benchmarks.evalplus import HUMANEVAL
from redqueen.extras.benchmarks.livecodebench import LIVECODEBENCH
from redqueen.extras.benchmarks.maths import AIME24, MINERVA
from redqueen.method.verifier import LocalVerifier
from tests.evals import rows

AIME = [{"id": number, "problem": f"What is {number}?", "answer": str(number)} for number in range(3)]


def test_problems_are_the_first_rows_with_the_checksum_of_the_file(tmp_path: Path) -> None:
    rows.write(tmp_path / "aime24.jsonl", AIME)
    loaded = load(AIME24, tmp_path, 2)
    assert [problem.id for problem in loaded.problems] == ["0", "1"]
    assert loaded.problems[1].data["answers"] == ("1",)
    assert (loaded.available, loaded.origin) == (3, "aime24.jsonl")
    assert loaded.sha256 == hashlib.sha256((tmp_path / "aime24.jsonl").read_bytes()).hexdigest()


def test_a_packed_release_file_is_read(tmp_path: Path) -> None:
    row = {
        "task_id": "HumanEval/0",
        "prompt": "def one():\n",
        "canonical_solution": "    return 1\n",
        "entry_point": "one",
        "base_input": [[]],
        "plus_input": [],
        "atol": 0,
    }
    (tmp_path / "HumanEvalPlus.jsonl.gz").write_bytes(gzip.compress(json.dumps(row).encode()))
    loaded = load(HUMANEVAL, tmp_path, None)
    assert loaded.programs == ["def one():\n    return 1\n"]
    problem = loaded.problems[0]
    assert HUMANEVAL.pose(problem, "completion").text == "def one():\n"
    assert HUMANEVAL.read(problem, "completion", "    return 2") == "def one():\n    return 2"
    assert HUMANEVAL.read(problem, "chat", "```python\ndef one(): return 3\n```") == "def one(): return 3\n"


def test_rows_of_the_hub_that_have_the_answer_alone_are_read() -> None:
    problem = MINERVA.problem({"question": "How far?", "answer": "1.6"})
    assert (problem.prompt, problem.data["answers"]) == ("How far?", ("1.6",))


def test_two_rows_of_one_id_are_two_problems(tmp_path: Path) -> None:
    # Where a row has no id its question is one, and data sets repeat questions.
    asked = ["How far?", "How far?", "How far? (2)", "How far?"]
    rows.write(tmp_path / "minerva_math.jsonl", [{"question": question, "answer": "1.6"} for question in asked])
    loaded = load(MINERVA, tmp_path, None)
    assert [problem.id for problem in loaded.problems] == [
        "How far?", "How far? (2)", "How far? (2) (2)", "How far? (3)",
    ]  # fmt: skip
    assert [problem.prompt for problem in loaded.problems] == asked


@pytest.mark.parametrize(
    ("benchmark", "message"),
    [
        (AIME24, "has no aime24.jsonl: put it there, or leave --data out to load HuggingFaceH4/aime_2024"),
        (HUMANEVAL, "or HumanEvalPlus.jsonl: put it there, or leave --data out to download it from https://github.com"),
        (LIVECODEBENCH, "leave --data out to load livecodebench/code_generation_lite"),
    ],
)
def test_a_missing_file_is_one_line_with_what_to_do(tmp_path: Path, benchmark: Benchmark, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load(benchmark, tmp_path, None)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_missing_files_are_named_at_once_with_what_is_there(tmp_path: Path, verifier: LocalVerifier) -> None:
    rows.write(tmp_path / "aime24.jsonl", AIME)
    with pytest.raises(UserError) as caught:
        load_benchmarks(["livecodebench", "aime24", "gsm8k"], Config().play_settings, verifier, tmp_path, None)
    line = str(caught.value)
    assert "\n" not in line
    assert "LiveCodeBench: " in line
    assert "has no gsm8k.jsonl" in line
    assert line.endswith(". Or choose only what is there: aime24")
    (loaded,) = load_benchmarks(["aime24"], Config().play_settings, verifier, tmp_path, None)
    assert len(loaded.problems) == 3


def test_lines_after_the_limit_are_counted_and_a_text_may_hold_any_character(tmp_path: Path) -> None:
    text = "one\u2028two\x85three"
    lines = [json.dumps({"id": 0, "problem": text, "answer": "1"}, ensure_ascii=False), "", "no JSON"]
    (tmp_path / "aime24.jsonl").write_text("\r\n".join(lines), encoding="utf-8")
    loaded = load(AIME24, tmp_path, 1)
    assert [problem.prompt for problem in loaded.problems] == [text]
    assert (loaded.available, loaded.whole) == (2, False)


@pytest.mark.parametrize("content", ["", "[", '{"id": 1}\n'])
def test_damaged_files_are_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "aime24.jsonl").write_text(content)
    with pytest.raises(UserError, match=r"aime24") as caught:
        load(AIME24, tmp_path, None)
    assert "\n" not in str(caught.value)


def test_a_line_that_only_unpacks_to_gigabytes_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redqueen.evals.registry._MOST_IN_LINE", 1 << 20)
    for length, good in ((1 << 20, True), ((1 << 20) + 1, False)):
        file = tmp_path / f"{length}.jsonl.gz"
        file.write_bytes(gzip.compress(b'{"a": 1}\n' + b'{"b": "' + b"x" * (length - 9) + b'"}'))
        if good:
            assert read([file], None).available == 2
        else:
            with pytest.raises(UserError, match="it has a line of more than 1 MiB"):
                read([file], None)


def test_words_and_groups_are_chosen_in_the_order_of_tables() -> None:
    assert chosen(["gsm8k", "code"]) == ["humaneval+", "mbpp+", "livecodebench", "gsm8k"]
    assert chosen(["all"]) == names()
    assert len(groups()["code"]) + len(groups()["maths"]) == 10
    with pytest.raises(UserError, match="there is no benchmark 'gsm': choose code, maths, all, humaneval"):
        chosen(["gsm"])
