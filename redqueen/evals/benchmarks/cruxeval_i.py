"""CRUXEval-I: which input gives this output? Any right input counts."""

from __future__ import annotations

from redqueen.evals.benchmarks.cruxeval import cruxeval_benchmark

CRUXEVAL_I = cruxeval_benchmark(name="cruxeval-i", title="CRUXEval-I", asks="input")
