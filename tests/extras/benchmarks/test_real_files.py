"""The benchmarks' own files, where the environment variable REDQUEEN_BENCHMARKS names a folder that has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from redqueen.evals.benchmark import Benchmark
from redqueen.evals.registry import SHIPPED, load, named

FOLDER = os.environ.get("REDQUEEN_BENCHMARKS", "")


@pytest.mark.parametrize("benchmark", [named(name) for name in SHIPPED], ids=lambda one: one.name)
def test_every_row_is_a_problem_with_a_prompt(benchmark: Benchmark) -> None:
    source = benchmark.source
    there = [names for names in source.files if all((Path(FOLDER) / name).is_file() for name in names.split("+"))]
    if not FOLDER or not there:
        pytest.skip("REDQUEEN_BENCHMARKS names no folder that has its file")
    loaded = load(benchmark, Path(FOLDER), None)
    assert loaded.whole
    assert len({problem.id for problem in loaded.problems}) == len(loaded.problems)
    for problem in loaded.problems:
        for form in ("chat", loaded.benchmark.standard):
            prompt = loaded.benchmark.pose(problem, form)
            assert problem.prompt.strip()[:50] in prompt.text
