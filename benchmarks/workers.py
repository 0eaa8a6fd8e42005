"""`python -m benchmarks workers`: the gain from several processes, in tokens per second of wall time.

The same requests are sampled in one process, and in several that share the base and the members. As in a run, each
process decodes a limited number of rows at once, and the members' weights are updated between two steps.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from statistics import median
from typing import Any

from benchmarks import system, workload
from benchmarks.report import Report, against, finish, log
from benchmarks.step import Work, requests_of, take_step
from benchmarks.system import BenchmarkConfig
from benchmarks.timing import Contender, Timing, take_turns
from redqueen.engine.policy import Policy
from redqueen.records import Request

COLUMNS = (
    ("ratio", "ratio"),
    ("how", ""),
    ("per_wall_s", "tokens per s"),
    ("wall_ms", "wall ms"),
    ("tokens", "tokens"),
)
NOTES = ("ratio: tokens per second of wall time over one worker's; tokens: those written.",)


def run_bench_workers(
    config: BenchmarkConfig, members: int, workers: int, rows: int, work: Work, rounds: int, *, as_json: bool
) -> int:
    """Measures and prints the report; returns the exit code."""
    sizes = {"members": members, "workers": workers, "rows": rows, **asdict(work), "rounds": rounds}
    report = Report("workers", {**asdict(config), **sizes})
    log("loading")
    with ExitStack() as stack:
        # Both stay open, so that they can take turns; idle worker processes use no CPU time.
        systems: dict[int, Policy] = {}
        for count in (workers, 1):
            systems[count] = system.build(replace(config, workers=count), members, batch_tokens=1024, batch_rows=rows)
            stack.enter_context(systems[count])
        texts = workload.prompts(systems[1].base, work.completions // work.attempts, work.prompt)
        requests = requests_of(texts, members, work)
        shape = f"{work.completions} x ({work.prompt} + {work.new}) tokens, {work.attempts} attempts per prompt"
        for what, turn, aim in (("sampling", system.sample, ">= 1.8"), ("whole step", take_step, ">= 1.6")):
            _measure(report, f"{what}, {shape}", turn, systems, requests, rounds, aim if workers == 2 else "")
    return finish(report, COLUMNS, as_json, NOTES)


def _measure(
    report: Report,
    case: str,
    turn: Callable[[Policy, list[Request]], Timing],
    systems: dict[int, Policy],
    requests: list[Request],
    rounds: int,
    aim: str,
) -> None:
    """Measures one kind of turn and adds its rows and ratio."""
    # Workers are compared by wall time: their CPU time is spent in other processes, which a `Stopwatch` does not see.
    contenders = [Contender(_named(count), partial(turn, ours, requests)) for count, ours in systems.items()]
    take_turns(contenders, rounds, log, case)
    many, one = contenders
    report.results += [_row(case, contender, one) for contender in contenders]
    report.ratio(f"{case}: throughput of {many.name} / of {one.name}", against(many, one, _rate), aim)


def _named(workers: int) -> str:
    return f"{workers} workers" if workers > 1 else "1 worker"


def _rate(timing: Timing) -> float:
    """Returns the tokens written per second of wall time."""
    return timing.tokens / timing.wall_s


def _row(case: str, contender: Contender, one: Contender) -> dict[str, Any]:
    return {
        "ratio": round(against(contender, one, _rate), 3),
        "case": case,
        "how": contender.name,
        "per_wall_s": round(median(map(_rate, contender.turns)), 1),
        "wall_ms": round(median(turn.wall_s for turn in contender.turns) * 1000, 1),
        "tokens": contender.turns[0].tokens,
        "wall_ms_rounds": [round(turn.wall_s * 1000, 1) for turn in contender.turns],
    }
