"""CRUXEval-O: what does this function return?"""

from __future__ import annotations

from redqueen.evals.benchmarks.cruxeval import cruxeval_benchmark

CRUXEVAL_O = cruxeval_benchmark(name="cruxeval-o", title="CRUXEval-O", asks="output")
