"""MBPP+ (Austin et al. 2021; Liu et al. 2023): 378 functions to write from a sentence and one example."""

from __future__ import annotations

from redqueen.evals.benchmarks.benchmark import Source
from redqueen.evals.benchmarks.evalplus_text import evalplus_benchmark

MBPP = evalplus_benchmark(
    name="mbpp+",
    title="MBPP+",
    source=Source(
        files=("MbppPlus.jsonl.gz", "MbppPlus.jsonl"),
        rows=378,
        hub="evalplus/mbppplus",
        release="https://github.com/evalplus/mbppplus_release/releases/download/v0.2.0/MbppPlus.jsonl.gz",
        sha256="af43697e8791c4c149bdfd6b489d8b5412507551ac20e28a439f650b8225db63",
    ),
    # The text may begin with helpers and imports, so these end nothing.
    stop=('\n"""', "\nassert", "\nif __name__", "\ndef main(", "\nprint(", "\n```"),
)
