"""`python -m benchmarks population`: whole steps of a population, beside a single agent's with as many tasks.

Both are ordinary runs with the settings of `overnight`: 4 teachers and 4 students with evolution, and one adapter that
writes and solves as many tasks (`matched=total`). They take turns, step by step, each step in a process of its own, so
that a slow minute slows both. Texts differ, so steps are compared as they are and by the token. The paper reports 1.31
times the wall clock of its single agent.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import Report, finish, log, paired_ratio
from benchmarks.run_memory import peak_of
from benchmarks.system import BenchmarkConfig
from redqueen.store.directory import RunDirectory

SIDES = {
    "4 teachers, 4 students": ("population.teachers=4", "population.students=4"),
    "one adapter": ("population.teachers=4", "population.students=4", "matched=total"),
}
COMMON = ("evals.every=0", "evolution.every=1", "game.proposals=5", "game.attempts=8")
COLUMNS = (
    ("ratio", "ratio"),
    ("how", ""),
    ("step_s", "step, s"),
    ("token_ms", "ms a token"),
    ("play_s", "of it playing"),
    ("learn_s", "learning"),
    ("tokens", "tokens"),
    ("gib", "GiB"),
)


def run_bench_population(config: BenchmarkConfig, steps: int, *, as_json: bool) -> int:
    """Measures and prints the report; returns the exit code. Raises BenchmarkError if a run fails."""
    # The rank is the recipe's.
    settings = {key: value for key, value in asdict(config).items() if key != "rank"}
    report = Report("population", {**settings, "steps": steps})
    peaks: dict[str, int] = dict.fromkeys(SIDES, 0)
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: RunDirectory(Path(folder) / str(place)) for place, name in enumerate(SIDES)}
        # The first step of each run writes caches, and counts for nothing.
        for step in range(1, steps + 2):
            for name, run in runs.items():
                log(f"{name}: step {step}")
                peaks[name] = max(peaks[name], peak_of(_arguments(config, name, run, step)))
        lines = {name: run.metrics()[1:] for name, run in runs.items()}
    population, single = lines.values()
    for name, each in lines.items():
        report.results.append(_row(name, each, single, peaks[name]))
    report.ratio("a step of 4 teachers and 4 students / of one adapter", paired_ratio(population, single, _seconds), "")
    report.ratio("the same by the token", paired_ratio(population, single, _per_token), "<= 1.31")
    first, second = peaks.values()
    report.ratio("memory", first / second, "")
    return finish(report, COLUMNS, as_json)


def _arguments(config: BenchmarkConfig, name: str, run: RunDirectory, step: int) -> list[str]:
    if step > 1:
        return ["--resume", str(run.path), "--steps", str(step)]
    model = (f"model.name={config.model}", f"model.dtype={config.dtype}", f"model.threads={config.threads}")
    workers = f"model.workers={config.workers}"
    return ["overnight", *SIDES[name], *COMMON, *model, workers, "--steps", "1", "--run", str(run.path)]


def _seconds(line: dict[str, Any]) -> float:
    return float(line["seconds"]["total"])


def _tokens(line: dict[str, Any]) -> int:
    """Tokens that a step read, wrote and trained on."""
    read = sum(phase["prompt_tokens"] for phase in line["throughput"].values())
    return int(read + line["tokens_sampled"] + line["tokens_trained"])


def _per_token(line: dict[str, Any]) -> float:
    return _seconds(line) / _tokens(line)


def _row(name: str, lines: list[dict[str, Any]], single: list[dict[str, Any]], peak: int) -> dict[str, Any]:
    seconds = [line["seconds"] for line in lines]
    return {
        "ratio": round(paired_ratio(lines, single, _per_token), 3),
        "case": "whole steps of the recipe overnight, by the token",
        "how": name,
        "step_s": round(median(each["total"] for each in seconds), 2),
        "token_ms": round(1000 * median(map(_per_token, lines)), 3),
        "play_s": round(median(each["propose"] + each["solve"] for each in seconds), 2),
        "learn_s": round(median(each["learn"] for each in seconds), 2),
        "tokens": round(median(map(_tokens, lines))),
        "gib": round(peak / 2**30, 2),
        "step_s_rounds": [each["total"] for each in seconds],
        "tokens_rounds": [_tokens(line) for line in lines],
    }
