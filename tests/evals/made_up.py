"""Results of an evaluation that never took place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redqueen.evals.benchmark import ProblemSet
from redqueen.evals.grader import Problem
from redqueen.evals.registry import named
from redqueen.evals.samples import SampleRow
from redqueen.evals.scores import Results, ScoreEntry

ENTRIES = [
    ScoreEntry(target="base", member=""),
    ScoreEntry(target="run", member="S0"),
    ScoreEntry(target="run", member="S1"),
]


def loaded(name: str, problems: int) -> ProblemSet:
    return ProblemSet(
        benchmark=named(name),
        problems=[Problem(id=f"{n}", benchmark=name, prompt="", data={"part": "ab"[n % 2]}) for n in range(problems)],
        available=problems,
        origin="",
        sha256="",
    )


def rows(name: str, statuses: Sequence[str], samples: int = 1) -> list[SampleRow]:
    return [
        SampleRow(
            setting="",
            adapter="",
            benchmark=name,
            problem=f"{number // samples}",
            number=number % samples,
            label="",
            text="",
            answer="",
            status=status,
            detail="",
            tokens=10,
            cut_off=number % 2,
        )
        for number, status in enumerate(statuses)
    ]


def results(right: Mapping[str, Sequence[int]], problems: int = 40, entries: Sequence[ScoreEntry] = ENTRIES) -> Results:
    """Returns results in which each entry solves the first so many problems of each benchmark."""
    benchmarks = [loaded(name, problems) for name in right]
    found = Results(entries, benchmarks)
    for one in benchmarks:
        name = one.benchmark.name
        found.add(one, [rows(name, ["correct"] * n + ["wrong"] * (problems - n)) for n in right[name]])
    return found
