"""HumanEval+ (Chen et al. 2021; Liu et al. 2023): 164 functions to complete."""

from __future__ import annotations

from redqueen.evals.benchmarks.benchmark import Source
from redqueen.evals.benchmarks.evalplus_text import evalplus_benchmark

HUMANEVAL = evalplus_benchmark(
    name="humaneval+",
    title="HumanEval+",
    source=Source(
        files=("HumanEvalPlus.jsonl.gz", "HumanEvalPlus.jsonl"),
        rows=164,
        hub="evalplus/humanevalplus",
        release="https://github.com/evalplus/humanevalplus_release/releases/download/v0.1.10/HumanEvalPlus.jsonl.gz",
        sha256="272720b90ac375502c8ed23cd791c2a93dfb22a911641a494da74a426c09f101",
    ),
    # The function ends where another statement begins in the first column.
    stop=("\ndef ", "\nclass ", "\nimport ", "\nfrom ", "\nassert ", "\nif __name__", "\nprint(", "\n#", "\n```"),
)
