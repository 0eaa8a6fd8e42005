"""The graders on the benchmarks' own files, where the environment variable REDQUEEN_BENCHMARKS names their folder.

Every reference is right and every program or answer that is wrong on purpose is wrong; the exceptions are listed.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redqueen.evals.grader import Problem
from redqueen.evals.registry import named
from redqueen.extras.benchmarks.cruxeval import CruxEvalGrader
from redqueen.extras.benchmarks.evalplus import EvalPlusGrader, reference
from tests.extras.benchmarks.wrong import WRONG

FOLDER = os.environ.get("REDQUEEN_BENCHMARKS", "")
CODE = {"humaneval+": ("HumanEvalPlus.jsonl.gz", 164), "mbpp+": ("MbppPlus.jsonl.gz", 378)}
MATHS = {
    "aime24": ("aime24.jsonl", 30),
    "aime25": ("aime25.jsonl", 30),
    "amc23": ("amc23.jsonl", 40),
    "math500": ("math500.jsonl", 500),
    "minerva": ("minerva_math.jsonl", 272),
    "gsm8k": ("gsm8k.jsonl", 1319),
    "olympiadbench": ("olympiadbench.jsonl", 675),
}
SAME_MEANING = {("math500", "5", "x=5")}
"""Answers of neighbours that are two ways to write one answer."""


def rows(name: str) -> list[dict[str, Any]]:
    path = Path(FOLDER) / name
    if not FOLDER or not path.is_file():
        pytest.skip("REDQUEEN_BENCHMARKS names no folder that has this file")
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.decode().splitlines()]


def problems(benchmark: str) -> list[Problem]:
    name, count = CODE[benchmark]
    found = rows(name)
    assert len(found) == count
    return [Problem(id=row["task_id"], benchmark=benchmark, prompt=row["prompt"], data=row) for row in found]


@pytest.fixture(scope="module")
def grader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvalPlusGrader]:
    with EvalPlusGrader(cache=tmp_path_factory.mktemp("cache") / "expected.sqlite") as shared:
        yield shared


def test_the_first_canonical_solutions_pass_and_wrong_ones_fail(grader: EvalPlusGrader) -> None:
    for benchmark in CODE:
        for problem in problems(benchmark)[:3]:
            assert grader.grade(problem, reference(problem.data)).status == "correct"
            assert [
                name for name, make in WRONG.items() if grader.grade(problem, make(problem.data)).status == "correct"
            ] == []


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", CODE)
def test_every_canonical_solution_passes(grader: EvalPlusGrader, benchmark: str) -> None:
    futures = [(problem.id, grader.submit(problem, reference(problem.data))) for problem in problems(benchmark)]
    assert [(name, future.result()) for name, future in futures if future.result().status != "correct"] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("benchmark", CODE)
def test_every_wrong_solution_fails(grader: EvalPlusGrader, benchmark: str, kind: str) -> None:
    futures = [(problem.id, grader.submit(problem, WRONG[kind](problem.data))) for problem in problems(benchmark)]
    assert [
        name
        for name, future in futures
        if future.result().status == "correct" or future.result().status == "infra_error"
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["input", "output"])
def test_every_reference_of_cruxeval_is_right(kind: str) -> None:
    found = rows("cruxeval.jsonl")
    assert len(found) == 800
    with CruxEvalGrader() as crux:
        asked = [Problem(id=row["id"], benchmark="cruxeval", prompt="", data={**row, "kind": kind}) for row in found]
        grades = [crux.submit(problem, problem.data[kind]) for problem in asked]
        assert [
            problem.id for problem, grade in zip(asked, grades, strict=True) if grade.result().status != "correct"
        ] == []


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", MATHS)
def test_every_reference_answer_is_right_and_its_neighbour_is_wrong(benchmark: str) -> None:
    pytest.importorskip("math_verify")
    from redqueen.extras.benchmarks.maths import MathsGrader

    name, count = MATHS[benchmark]
    answers = [named(benchmark).problem(row).data["answers"] for row in rows(name)]
    assert len(answers) == count
    with MathsGrader() as maths:
        pairs = [
            (own, other, maths.submit(problem, ", ".join(own)), maths.submit(problem, ", ".join(other)))
            for own, other in zip(answers, [*answers[1:], answers[0]], strict=True)
            for problem in [Problem(id="", benchmark=benchmark, prompt="", data={"answers": own})]
        ]
        refused = [own for own, _, right, _ in pairs if right.result().status != "correct"]
        taken = {
            (benchmark, own[0], other[0])
            for own, other, _, wrong in pairs
            if wrong.result().status == "correct" and own != other
        }
    assert refused == []
    assert taken <= SAME_MEANING


def near_misses(answer: str) -> list[str]:
    """Returns texts that look like an answer and mean something else."""
    text = answer.strip("$ ").rstrip(".")
    misses: list[str] = []
    if (digit := re.search(r"\d", text)) is not None:
        misses.append(text[: digit.start()] + str((int(digit[0]) + 1) % 10) + text[digit.end() :])
    if re.fullmatch(r"-?\d+", text):
        misses.append(f"{text}_7")
    if text[:1] in ("(", "[") and text[-1:] in (")", "]"):
        misses.append(rf"\{{{text[1:-1]}\}}")
    if re.fullmatch(r"[A-Za-z]", text):
        misses.append(text.swapcase())
    return misses


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", MATHS)
def test_what_only_looks_like_the_reference_answer_is_wrong(benchmark: str) -> None:
    pytest.importorskip("math_verify")
    from redqueen.extras.benchmarks.maths import MathsGrader

    answers = [named(benchmark).problem(row).data["answers"] for row in rows(MATHS[benchmark][0])]
    with MathsGrader() as maths:
        graded = [
            (own, miss, maths.submit(Problem(id="", benchmark=benchmark, prompt="", data={"answers": own}), miss))
            for own in answers
            if len(own) == 1
            for miss in near_misses(own[0])
        ]
        taken = [(own, miss) for own, miss, verdict in graded if verdict.result().status == "correct"]
    assert len(graded) >= len(answers) // 2
    assert taken == []
