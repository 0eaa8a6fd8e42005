"""GSM8K: 1,319 word problems of grade school (Cobbe et al. 2021)."""

from __future__ import annotations

from redqueen.evals.benchmarks.benchmark import Source
from redqueen.evals.benchmarks.maths_text import maths_benchmark

GSM8K = maths_benchmark(
    name="gsm8k",
    title="GSM8K",
    source=Source(files=("gsm8k.jsonl",), rows=1319, hub="openai/gsm8k", subset="main"),
    standard="completion",
)
