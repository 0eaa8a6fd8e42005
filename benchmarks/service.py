"""`python -m benchmarks service`: requests a second of `redqueen jail serve` under many clients, and whose come back.

Two loads take turns on one service: fair programs alone, and every second program hostile.
"""

from __future__ import annotations

import time
from collections import Counter
from statistics import median, quantiles

from benchmarks.report import Report, finish, log
from benchmarks.sandbox_scripts import service
from benchmarks.service_clients import Answer, ask_all
from redqueen.jail.probes import cores

COLUMNS = (
    ("how", "programs"),
    ("per_second", "requests/s"),
    ("p50_ms", "p50 ms"),
    ("p99_ms", "p99 ms"),
    ("answers", "answers"),
    ("lost", "lost"),
    ("foreign", "somebody else's"),
    ("wrong", "wrong"),
)
NOTES = (
    "p50, p99: from a client's request to its answer, all clients at work; each asks again when it has its answer.",
    "A hostile program may take 0.1 s of CPU.",
)
LOADS = {"fair": False, "every second one hostile": True}


def run_bench_service(clients: int, each: int, rounds: int, *, as_json: bool) -> int:
    """Measures and prints the report; returns the exit code, which is 1 if an answer was not as it should be."""
    workers = cores()
    report = Report("service", {"workers": workers, "clients": clients, "programs_each": each, "rounds": rounds})
    seconds: dict[str, list[float]] = {name: [] for name in LOADS}
    answers: dict[str, list[Answer]] = {name: [] for name in LOADS}
    with service(workers) as (host, port):
        ask_all(host, port, clients, 1, hostile=True)
        for number in range(rounds):
            for name, hostile in LOADS.items():
                began = time.perf_counter()
                answers[name] += ask_all(host, port, clients, each, hostile=hostile)
                seconds[name].append(time.perf_counter() - began)
            log(f"round {number + 1} of {rounds}")
    for name in LOADS:
        waits = quantiles((answer.wait_s * 1000 for answer in answers[name]), n=100)
        faults = Counter(answer.fault for answer in answers[name])
        rates = [clients * each / taken for taken in seconds[name]]
        report.results.append(
            {
                "case": f"{clients} clients",
                "how": name,
                "per_second": round(median(rates), 1),
                "p50_ms": round(waits[49], 1),
                "p99_ms": round(waits[98], 1),
                "answers": len(answers[name]),
                "lost": faults["lost"],
                "foreign": faults["foreign"],
                "wrong": faults["wrong"],
                "per_second_rounds": [round(rate, 1) for rate in rates],
            }
        )
    finish(report, COLUMNS, as_json, NOTES)
    return int(any(answer.fault for of_load in answers.values() for answer in of_load))
