"""Panels: what the living students solve of the benchmarks that `evals.benchmarks` names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from redqueen.analysis.panels.panel import Line, Panel, at, names, share


def held_out(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels of the evaluations; their steps are those that had one."""
    evaluated = [line for line in lines if line.get("evals")]
    benchmarks = names(line["evals"] for line in evaluated)
    together = [line for line in evaluated if line.get("held_out")]
    students = names(line["held_out"]["students"] for line in together)
    start = {"the start": tuple(at(line, "held_out", "start") for line in together)}
    rates = {name: tuple(at(line, "held_out", "students", name, "rate") for line in together) for name in students}
    return [
        share(
            together,
            "held-out-students",
            "dynamics",
            "Held-out problems, by student",
            "Right answers among the judged ones, all benchmarks of evals.benchmarks together. The start is the "
            "adapter that all members began with. No member is trained or selected by these problems.",
            {**start, **rates},
        ),
        share(
            evaluated,
            "held-out",
            "dynamics",
            "Held-out problems",
            "Right answers among the judged ones, as the mean of the living students, by benchmark. Held-out: no "
            "member is trained or selected by these problems.",
            {name: tuple(_mean(at(line, "evals", name) or {}) for line in evaluated) for name in benchmarks},
        ),
    ]


def _mean(rates: Mapping[str, float | None]) -> float | None:
    known = [rate for rate in rates.values() if rate is not None]
    return fmean(known) if known else None
