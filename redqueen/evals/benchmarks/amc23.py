"""AMC 12 of 2023: 40 problems whose answers are numbers."""

from __future__ import annotations

from redqueen.evals.benchmarks.benchmark import Source
from redqueen.evals.benchmarks.maths_text import maths_benchmark

AMC23 = maths_benchmark(
    name="amc23", title="AMC 23", source=Source(files=("amc23.jsonl",), rows=40, hub="math-ai/amc23")
)
