"""AIME 2024, I and II: 30 problems whose answers are integers from 0 to 999."""

from __future__ import annotations

from redqueen.evals.benchmarks.benchmark import Source
from redqueen.evals.benchmarks.maths_text import maths_benchmark

AIME24 = maths_benchmark(
    name="aime24",
    title="AIME 24",
    source=Source(files=("aime24.jsonl",), rows=30, hub="HuggingFaceH4/aime_2024", split="train"),
)
