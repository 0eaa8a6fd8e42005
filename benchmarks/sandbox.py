"""`python -m benchmarks sandbox`: programs a second, compared with fresh interpreters and with an unprotected pool.

All contenders take turns on the same slices of the seed programs, so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from statistics import median, quantiles
from typing import Any

import psutil

from benchmarks import sandbox_peers as peers
from benchmarks import sandbox_scripts as scripts
from benchmarks.report import Report, against, finish, log
from benchmarks.timing import Contender, Stopwatch, Timing, take_turns
from redqueen.config import SandboxConfig
from redqueen.jail import GAME, PROGRAMS, Job, Limits, Sandbox, canonical, parse_literal
from redqueen.jail.probes import cores
from redqueen.records import Draft
from redqueen.tasks.python import seeds

COLUMNS = (
    ("ratio", "ratio"),
    ("how", ""),
    ("per_second", "programs/s"),
    ("p50_ms", "p50 ms"),
    ("p99_ms", "p99 ms"),
    ("late_64_s", "64 with 8 late, s"),
)
NOTES = (
    "ratio: programs a second over a fresh interpreter's, median over the rounds.",
    "p50, p99: from handing a program in to its verdict, without a queue.",
    "64 with 8 late: seconds for 64 programs of which 8 never end.",
    "script: whole programs that print, as other trainers send them.",
    "memory_mib: of all processes while each worker has an endless program; shared pages by their share.",
)
OURS, POOL = "Red Queen's sandbox", "unprotected pool"
SERVICE = "redqueen jail serve"
FRESH = {"validate": "two fresh python -I -S", "grade": "a fresh python -I -S", "script": "a fresh python -I -S"}
_SPIN = Draft("def f(x):\n    while True:\n        pass", ("1",))
# A few programs that never end must not hold up the others: they occupy workers until their limit.
_LATE_PROGRAMS = 64
_LATE_EVERY = 8
Submit = Callable[[Draft], "Future[Any]"]


@dataclass(slots=True)
class Way:
    """One way to do one thing."""

    case: str
    """What it does: "validate", "grade" or "script"."""
    name: str
    submit: Submit
    waits_ms: list[float] = field(default_factory=list[float])
    """From handing a program in to its verdict, for programs that did not wait in a queue."""
    late_s: float = 0.0
    """Wall seconds for `_LATE_PROGRAMS` programs of which one in `_LATE_EVERY` never ends."""


def run_bench_sandbox(
    programs: int, rounds: int, jobs: int | None, cpu_s: float, *, as_json: bool, unsafe: bool = False
) -> int:
    """Measures and prints the report; returns the exit code."""
    config = SandboxConfig(cpu_s=cpu_s, workers=jobs or 0, unsafe_no_isolation=unsafe)
    workers = config.workers or cores()
    limits = Limits(cpu_s=config.cpu_s, wall_s=config.wall_s, memory_mb=config.memory_mb)
    settings = {"workers": workers, "cpu_limit_s": limits.cpu_s, "programs_a_round": programs, "rounds": rounds}
    with Sandbox(GAME.with_limits(limits), workers, allow_unsafe=unsafe) as sandbox:
        report = Report("sandbox", {"isolation": sandbox.tier, **settings})
        # The outputs to grade against are made by the sandbox before anything is timed.
        gold = _gold(sandbox, [*seeds(), _SPIN])
        # Before the others have processes of their own.
        spin = Job(_SPIN.program, _SPIN.inputs, limits=replace(limits, cpu_s=2.0))
        ours_mib = scripts.memory_mib(lambda: sandbox.submit(spin), workers)
        with (
            peers.new_pool(workers) as pool,
            ThreadPoolExecutor(workers) as threads,
            Sandbox(PROGRAMS, workers, allow_unsafe=unsafe) as jail,
            scripts.service(workers) as (host, port),
        ):
            others = [each.pid for each in psutil.Process().children(recursive=True)]
            fresh_mib = scripts.memory_mib(lambda: threads.submit(scripts.fresh, scripts.SPIN, 2.0), workers, others)
            ways = _ways(sandbox, pool.submit, threads.submit, gold, limits.cpu_s)
            ways += [
                Way("script", OURS, lambda d: jail.submit(scripts.job(d, limits.cpu_s))),
                Way(
                    "script",
                    SERVICE,
                    lambda d: threads.submit(scripts.ask, host, port, scripts.script(d), limits.cpu_s),
                ),
                Way(
                    "script", FRESH["script"], lambda d: threads.submit(scripts.fresh, scripts.script(d), limits.cpu_s)
                ),
            ]
            contenders = _measure(ways, programs, rounds, workers)
    report.settings |= {"memory_mib_ours": round(ours_mib, 1), "memory_mib_fresh": round(fresh_mib, 1)}
    for case, fresh_name in FRESH.items():
        of_case = {way.name: (way, contenders[way.case, way.name]) for way in ways if way.case == case}
        _, fresh = of_case[fresh_name]
        report.results += [_row(way, contender, fresh) for way, contender in of_case.values()]
        for name in (OURS, SERVICE):
            if name in of_case:
                aim = ">= 3.5" if name == OURS and case != "script" else ""
                what = f"{case}: programs a second{'' if name == OURS else ' by HTTP'} / {fresh_name}"
                report.ratio(what, against(of_case[name][1], fresh, _rate), aim)
        if POOL in of_case:
            unprotected = of_case[POOL][1]
            report.ratio(f"{case}: programs a second / {POOL}", against(of_case[OURS][1], unprotected, _rate), "")
    return finish(report, COLUMNS, as_json, NOTES)


def _gold(sandbox: Sandbox, drafts: Sequence[Draft]) -> dict[str, tuple[bytes, ...]]:
    """Returns canonical outputs by program, to grade against; no output equals those of a program that never ends."""
    outcomes = sandbox.run([Job(draft.program, draft.inputs) for draft in drafts])
    gold: dict[str, tuple[bytes, ...]] = {}
    for draft, outcome in zip(drafts, outcomes, strict=True):
        outputs = tuple(canonical(parse_literal(text)) for text in outcome.outputs)
        gold[draft.program] = outputs or (b"",) * len(draft.inputs)
    return gold


def _ways(
    sandbox: Sandbox,
    pool: Callable[..., Any],
    thread: Callable[..., Any],
    gold: dict[str, tuple[bytes, ...]],
    cpu_s: float,
) -> list[Way]:
    """Returns every way to validate and to grade, ours and the peers'."""
    # A validation runs a program twice within the CPU time of one attempt, so each of a peer's two runs has half of it.
    half = cpu_s / 2

    def grade(d: Draft) -> Future[Any]:
        return sandbox.submit(Job(d.program, d.inputs, expected=gold[d.program]))

    return [
        Way("validate", OURS, lambda d: sandbox.submit(Job(d.program, d.inputs, validate=True))),
        Way("validate", FRESH["validate"], lambda d: thread(peers.fresh_twice, d.program, d.inputs, half)),
        Way("validate", POOL, lambda d: pool(peers.pooled, d.program, d.inputs, half, 2)),
        Way("grade", OURS, grade),
        Way("grade", FRESH["grade"], lambda d: thread(peers.fresh, d.program, d.inputs, cpu_s)),
        Way("grade", POOL, lambda d: pool(peers.pooled, d.program, d.inputs, cpu_s)),
    ]


def _measure(ways: Sequence[Way], programs: int, rounds: int, workers: int) -> dict[tuple[str, str], Contender]:
    """Measures all turns, then the late programs. Returns the contenders by case and name."""
    drafts = list(itertools.islice(itertools.cycle(seeds()), programs * rounds))
    # In one round all contenders have the same programs. The uncounted turn is short: it starts the sandbox's processes
    # and brings files into the page cache.
    slices = [drafts[: 4 * workers]]
    slices += [drafts[number * programs : (number + 1) * programs] for number in range(rounds)]
    contenders = {
        (way.case, way.name): Contender(f"{way.case}: {way.name}", _turns(way, slices, workers)) for way in ways
    }
    take_turns(list(contenders.values()), rounds, log, "sandbox")
    log(f"{_LATE_PROGRAMS} programs, one in {_LATE_EVERY} runs into its limit")
    late = [_SPIN if i % _LATE_EVERY == 0 else drafts[i % len(drafts)] for i in range(_LATE_PROGRAMS)]
    for way in ways:
        # this takes seconds for each way, so it is measured once and not in every round
        started = time.perf_counter()
        _drive(way.submit, late, len(late))
        way.late_s = time.perf_counter() - started
    return contenders


def _turns(way: Way, slices: Sequence[Sequence[Draft]], workers: int) -> Callable[[], Timing]:
    """Returns a function whose n-th call handles the n-th slice: in one round all contenders have the same programs."""
    left: Iterator[tuple[int, Sequence[Draft]]] = iter(enumerate(slices))

    def turn() -> Timing:
        number, drafts = next(left)
        with Stopwatch() as watch:
            # the whole batch is submitted at once, as the trainer does
            _drive(way.submit, drafts, len(drafts))
        # With a whole batch, latency would be mostly time in the queue. One program for each worker leaves no queue.
        waits_ms = _drive(way.submit, drafts[: max(8, len(drafts) // 3)], workers)
        # slice 0 is the uncounted turn
        if number:
            way.waits_ms += waits_ms
        return Timing(watch.cpu_s, watch.wall_s, len(drafts))

    return turn


def _drive(submit: Submit, drafts: Sequence[Draft], in_flight: int) -> list[float]:
    """Keeps `in_flight` programs running; returns milliseconds from submission to verdict, in order of the verdicts."""
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
    """Returns a callback that notes the time since now and makes room for another program."""
    started = time.perf_counter()

    def stop(_: Future[Any]) -> None:
        waits.append((time.perf_counter() - started) * 1000)
        room.release()

    return stop


def _rate(timing: Timing) -> float:
    """Returns programs per second of wall time.

    The work is done in other processes, whose CPU time is not counted here.
    """
    return timing.tokens / timing.wall_s


def _row(way: Way, contender: Contender, fresh: Contender) -> dict[str, Any]:
    rates = [_rate(turn) for turn in contender.turns]
    cuts = quantiles(way.waits_ms, n=100, method="inclusive")
    return {
        "ratio": round(against(contender, fresh, _rate), 3),
        "case": way.case,
        "how": way.name,
        "per_second": round(median(rates), 1),
        "per_second_rounds": [round(rate, 1) for rate in rates],
        "p50_ms": round(cuts[49], 3),
        "p99_ms": round(cuts[98], 3),
        "late_64_s": round(way.late_s, 2),
    }
