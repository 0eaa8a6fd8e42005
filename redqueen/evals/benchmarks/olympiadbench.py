"""OlympiadBench (He et al. 2024): the 675 open-ended English mathematics problems of competitions, without pictures."""

from __future__ import annotations

from redqueen.evals.benchmarks.benchmark import Source
from redqueen.evals.benchmarks.maths_text import maths_benchmark

OLYMPIADBENCH = maths_benchmark(
    name="olympiadbench",
    title="OlympiadBench",
    source=Source(
        files=("olympiadbench.jsonl",),
        rows=675,
        hub="Hothan/OlympiadBench",
        subset="OE_TO_maths_en_COMP",
        split="train",
    ),
)
