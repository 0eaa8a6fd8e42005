"""What an evaluation came to, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from redqueen.base.intervals import Interval
from redqueen.evals.benchmarks.benchmark import ProblemSet
from redqueen.evals.contamination import Overlap
from redqueen.evals.runner import Plan
from redqueen.evals.scores import Results


def document(results: Results, plan: Plan, base: str, overlaps: Sequence[Overlap]) -> dict[str, object]:
    """Returns everything as plain data."""
    scores: list[dict[str, object]] = []
    for number, entry in enumerate(results.entries):
        cells = {name: asdict(cells[number]) for name, cells in results.cells.items()}
        averages = {name: _plain(results.rate(name, number)) for name in results.columns() if name not in cells}
        scores.append({**asdict(entry), "benchmarks": cells, "averages": averages})
    runs: dict[str, object] = {}
    singles = [entries[0] for entries in results.groups().values() if len(entries) == 1]
    for target, entries in results.groups().items():
        if len(entries) > 1:
            ranked = results.ranked(entries)
            runs[target] = {
                "best": results.entries[ranked[0]].member,
                "worst": results.entries[ranked[-1]].member,
                "means": {name: _plain(results.population(name, entries)) for name in results.columns()},
                "weakest_against": {
                    results.entries[single].label: _plain(results.weakest_against(entries, single))
                    for single in singles
                },
            }
    return {
        "base": base,
        "base_fingerprint": plan.base,
        "template": plan.template,
        "samples": plan.samples,
        "temperature": plan.temperature,
        "benchmarks": {loaded.benchmark.name: _data(loaded, plan) for loaded in results.benchmarks},
        "scores": scores,
        "runs": runs,
        "overlaps": [asdict(overlap) for overlap in overlaps],
    }


def _plain(interval: Interval | None) -> dict[str, object] | None:
    return None if interval is None else asdict(interval)


def _data(loaded: ProblemSet, plan: Plan) -> dict[str, object]:
    benchmark = loaded.benchmark
    return {
        "problems": len(loaded.problems),
        "available": loaded.available,
        "whole": benchmark.source.rows,
        "origin": loaded.origin,
        "sha256": loaded.sha256,
        "form": benchmark.form(plan.template),
        "max_tokens": plan.sampling(benchmark).max_tokens,
    }
