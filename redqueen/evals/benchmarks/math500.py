"""MATH-500: 500 problems of the data set MATH (Hendrycks et al. 2021), chosen by Lightman et al. (2023)."""

from __future__ import annotations

from redqueen.evals.benchmarks.benchmark import Source
from redqueen.evals.benchmarks.maths_text import maths_benchmark

MATH500 = maths_benchmark(
    name="math500", title="MATH-500", source=Source(files=("math500.jsonl",), rows=500, hub="HuggingFaceH4/MATH-500")
)
