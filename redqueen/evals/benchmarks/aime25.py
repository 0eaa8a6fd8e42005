"""AIME 2025, I and II: 30 problems whose answers are integers from 0 to 999."""

from __future__ import annotations

from redqueen.evals.benchmarks.benchmark import Source
from redqueen.evals.benchmarks.maths_text import maths_benchmark

AIME25 = maths_benchmark(
    name="aime25", title="AIME 25", source=Source(files=("aime25.jsonl",), rows=30, hub="math-ai/aime25")
)
