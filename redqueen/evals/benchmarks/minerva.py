"""Minerva: 272 problems of undergraduate courses (Lewkowycz et al. 2022, "OCWCourses")."""

from __future__ import annotations

from redqueen.evals.benchmarks.benchmark import Row, Source
from redqueen.evals.benchmarks.maths_text import maths_benchmark


def _with_solution(row: Row) -> Row:
    """Returns the row with a solution that holds the answer in a box: the hub's rows have the answer alone."""
    return row if "solution" in row else {**row, "solution": f"\\boxed{{{row['answer']}}}"}


MINERVA = maths_benchmark(
    name="minerva",
    title="Minerva",
    source=Source(files=("minerva_math.jsonl",), rows=272, hub="math-ai/minervamath"),
    standard="completion",
    adapt=_with_solution,
)
