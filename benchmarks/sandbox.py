"""`python -m benchmarks sandbox`: how many programs a second, against a fresh interpreter each and an unprotected pool.

All contenders take turns on the same slices of the seed programs, so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import sandbox_peers as peers
from redqueen.config import SandboxConfig
from redqueen.game.seeds import seeds
from redqueen.machine import cores
from redqueen.records import Draft
from redqueen.sandbox import GAME, Job, Limits, Sandbox, canonical, parse_literal

_SPIN = Draft("def f(x):\n    while True:\n        pass", ("1",))
_LATE_PROGRAMS, _LATE_EVERY = 64, 8
Submit = Callable[[Draft], "Future[Any]"]


@dataclass
class Contender:
    """One way to do one thing, and what was measured of it."""

    what: str
    how: str
    submit: Submit
    rates: list[float] = field(default_factory=list[float])
    waits_ms: list[float] = field(default_factory=list[float])
    late_s: float = 0.0

    def row(self) -> dict[str, Any]:
        cuts = quantiles(self.waits_ms, n=100, method="inclusive")
        return {
            "what": self.what,
            "how": self.how,
            "per_second": round(median(self.rates), 1),
            "per_second_rounds": [round(rate, 1) for rate in self.rates],
            "p50_ms": round(cuts[49], 3),
            "p99_ms": round(cuts[98], 3),
            "late_64_s": round(self.late_s, 2),
        }


def run_bench_sandbox(
    programs: int, rounds: int, jobs: int | None, cpu_s: float, *, as_json: bool, unsafe: bool = False
) -> int:
    """Measures and prints; returns the exit code."""
    config = SandboxConfig(cpu_s=cpu_s, workers=jobs or 0, unsafe_no_isolation=unsafe)
    workers = config.workers or cores()
    limits = Limits(cpu_s=config.cpu_s, wall_s=config.wall_s, memory_mb=config.memory_mb)
    console = Console(stderr=True)
    with Sandbox(GAME.with_limits(limits), workers, allow_unsafe=unsafe) as sandbox:
        drafts = [draft for draft, _ in zip(_forever(seeds()), range(programs * rounds), strict=False)]
        gold = _gold(sandbox, [*seeds(), _SPIN])
        with peers.new_pool(workers) as pool, ThreadPoolExecutor(workers) as threads:
            contenders = _contenders(sandbox, pool.submit, threads.submit, gold, limits.cpu_s)
            _measure(contenders, drafts, programs, rounds, workers, console)
        tier = sandbox.tier
    rows = [contender.row() for contender in contenders]
    report = {
        "isolation": tier,
        "workers": workers,
        "cpu_limit_s": limits.cpu_s,
        "programs_a_round": programs,
        "rounds": rounds,
        "machine": f"{platform.machine()}, {cores()} cores, Python {platform.python_version()}",
        "load": round(os.getloadavg()[0], 2),
        "times_fresh": _ratios(rows, "fresh"),
        "times_pool": _ratios(rows, "pool"),
        "results": rows,
    }
    print(json.dumps(report, indent=2)) if as_json else _print(report)
    return 0


def _forever(items: Sequence[Draft]) -> Any:
    while True:
        yield from items


def _gold(sandbox: Sandbox, drafts: Sequence[Draft]) -> dict[str, tuple[bytes, ...]]:
    """Canonical outputs by program, to grade against; a program that never ends is expected to print nothing right."""
    outcomes = sandbox.run([Job(draft.program, draft.inputs) for draft in drafts])
    return {
        draft.program: tuple(canonical(parse_literal(text)) for text in outcome.outputs) or (b"",) * len(draft.inputs)
        for draft, outcome in zip(drafts, outcomes, strict=True)
    }


def _contenders(
    sandbox: Sandbox, pool: Callable[..., Any], thread: Callable[..., Any], gold: dict[str, Any], cpu_s: float
) -> list[Contender]:
    half = cpu_s / 2

    def grade(d: Draft) -> Future[Any]:
        return sandbox.submit(Job(d.program, d.inputs, expected=gold[d.program]))

    return [
        Contender("validate", "sandbox", lambda d: sandbox.submit(Job(d.program, d.inputs, validate=True))),
        Contender("validate", "fresh", lambda d: thread(peers.fresh_twice, d.program, d.inputs, half)),
        Contender("validate", "pool", lambda d: pool(peers.pooled, d.program, d.inputs, half, 2)),
        Contender("grade", "sandbox", grade),
        Contender("grade", "fresh", lambda d: thread(peers.fresh, d.program, d.inputs, cpu_s)),
        Contender("grade", "pool", lambda d: pool(peers.pooled, d.program, d.inputs, cpu_s)),
    ]


def _measure(
    contenders: list[Contender], drafts: list[Draft], programs: int, rounds: int, workers: int, console: Console
) -> None:
    for contender in contenders:  # warm: zygotes started, files in the page cache
        _drive(contender.submit, drafts[: 4 * workers], workers)
    for number in range(rounds):
        console.print(f"round {number + 1} of {rounds}")
        part = drafts[number * programs : (number + 1) * programs]
        for contender in contenders:
            started = time.perf_counter()
            _drive(contender.submit, part, len(part))  # a whole batch at once, as the trainer does
            contender.rates.append(len(part) / (time.perf_counter() - started))
            # and how long one takes that does not wait in a queue
            contender.waits_ms += _drive(contender.submit, part[: max(8, len(part) // 3)], workers)
    console.print(f"{_LATE_PROGRAMS} programs, one in {_LATE_EVERY} runs into its limit")
    late = [_SPIN if i % _LATE_EVERY == 0 else drafts[i % len(drafts)] for i in range(_LATE_PROGRAMS)]
    for contender in contenders:
        started = time.perf_counter()
        _drive(contender.submit, late, len(late))
        contender.late_s = time.perf_counter() - started


def _drive(submit: Submit, drafts: Sequence[Draft], in_flight: int) -> list[float]:
    """Keeps `in_flight` programs running; milliseconds from handing in to verdict, in the order they ended."""
    room = threading.Semaphore(in_flight)
    waits: list[float] = []
    futures: list[Future[Any]] = []
    for draft in drafts:
        room.acquire()
        future = submit(draft)
        future.add_done_callback(_stopwatch(room, waits))
        futures.append(future)
    for future in futures:
        future.result()
    return waits


def _stopwatch(room: threading.Semaphore, waits: list[float]) -> Callable[[Future[Any]], None]:
    started = time.perf_counter()

    def stop(_: Future[Any]) -> None:
        waits.append((time.perf_counter() - started) * 1000)
        room.release()

    return stop


def _ratios(rows: list[dict[str, Any]], other: str) -> dict[str, float]:
    rate = {(row["what"], row["how"]): row["per_second"] for row in rows}
    return {what: round(rate[what, "sandbox"] / rate[what, other], 2) for what in ("validate", "grade")}


_NAMES = {
    ("validate", "sandbox"): "Red Queen's sandbox",
    ("grade", "sandbox"): "Red Queen's sandbox",
    ("validate", "fresh"): "two fresh python -I -S",
    ("grade", "fresh"): "a fresh python -I -S",
    ("validate", "pool"): "unprotected pool",
    ("grade", "pool"): "unprotected pool",
}


def _print(report: dict[str, Any]) -> None:
    console = Console()
    table = Table("", "", "programs/s", "p50 ms", "p99 ms", "64 with 8 late, s", box=None, pad_edge=False)
    for row in report["results"]:
        cells = (row["per_second"], row["p50_ms"], row["p99_ms"], row["late_64_s"])
        table.add_row(row["what"], _NAMES[row["what"], row["how"]], *(f"{cell:.1f}" for cell in cells))
    console.print(table)
    ratios = ", ".join(f"{what} {ratio:.1f} times" for what, ratio in report["times_fresh"].items())
    console.print(
        f"against a fresh interpreter: {ratios}; isolation {report['isolation']}, {report['workers']} at once, "
        f"limit {report['cpu_limit_s']:g} s of CPU, load {report['load']}"
    )
