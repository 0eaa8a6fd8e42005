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
        elsewhere="https://github.com/evalplus/humanevalplus_release/releases",
    ),
    # The function ends where another statement begins in the first column.
    stop=("\ndef ", "\nclass ", "\nimport ", "\nfrom ", "\nassert ", "\nif __name__", "\nprint(", "\n#", "\n```"),
)
