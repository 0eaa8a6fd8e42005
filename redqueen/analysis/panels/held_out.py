"""Panel: what the living students solve of the benchmarks that `evals.benchmarks` names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from redqueen.analysis.panels.panel import Line, Panel, at, names, share


def held_out(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panel of the evaluations; its steps are those that had one."""
    evaluated = [line for line in lines if line.get("evals")]
    benchmarks = names(line["evals"] for line in evaluated)
    return [
        share(
            evaluated,
            "held-out",
            "dynamics",
            "Held-out problems",
            "Right answers among the judged ones, as the mean of the living students, by benchmark. Held-out: no "
            "member is trained or selected by these problems.",
            {name: tuple(_mean(at(line, "evals", name) or {}) for line in evaluated) for name in benchmarks},
        )
    ]


def _mean(rates: Mapping[str, float | None]) -> float | None:
    known = [rate for rate in rates.values() if rate is not None]
    return fmean(known) if known else None
