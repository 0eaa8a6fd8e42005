"""The live page on a large run: the time of each view at the server, and the size of the archive.

The run is written by `benchmarks.synthetic_run`. A time is from the request to the last byte of the answer, in the
server's process and without a socket; drawing in the browser is not in it. The first request of each view is reported
apart: it finds nothing prepared. CPU time is the median over the requests after it; on a busy machine it says how
much of the time was the server's own.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from starlette.testclient import TestClient

from benchmarks.report import Report, finish, log
from benchmarks.synthetic_run import Size, SyntheticRun
from redqueen.extras.page.app import make_app
from redqueen.extras.page.live_run import Folder
from redqueen.store.directory import RunDirectory

AIM_MS = 300
COLUMNS = (
    ("view", "view"),
    ("first_ms", "first, ms"),
    ("ms", "median, ms"),
    ("worst_ms", "worst, ms"),
    ("cpu_ms", "CPU, ms"),
    ("kb", "KB"),
)


def run_bench_watch(size: Size, rounds: int, folder: Path | None, *, as_json: bool) -> int:
    """Writes the run, asks for every view, and prints the report; returns the exit code.

    A run that is in `folder` already is measured as it is.
    """
    report = Report("watch", {"steps": size.steps, "matches": size.matches, "tasks": size.tasks, "rounds": rounds})
    report.settings["attempts"] = size.steps * size.matches * size.tasks * size.attempts
    with TemporaryDirectory(prefix="redqueen-bench-") as scratch:
        run = folder or Path(scratch) / "run"
        if not RunDirectory(run).exists:
            log(f"writing {report.settings['attempts']:,} attempts to {run} ...")
            began = time.perf_counter()
            SyntheticRun(run, size).write()
            report.settings["seconds_to_write"] = round(time.perf_counter() - began, 1)
        report.settings["archive_mb"] = round(sum(os.path.getsize(file) for file in run.glob("run.sqlite*")) / 1e6, 1)
        report.results = [_measure(client_of(run), name, address, rounds) for name, address in views(size)]
    slowest = max(report.results, key=lambda row: max(row["ms_rounds"]))
    report.ratio(f"ms, the slowest request: {slowest['view']}", max(slowest["ms_rounds"]), f"<= {AIM_MS}")
    return finish(report, COLUMNS, as_json)


def client_of(run: Path) -> TestClient:
    """Returns a client of a new server, which has read nothing yet."""
    return TestClient(make_app(Folder(run)), base_url="http://127.0.0.1")


def views(size: Size) -> list[tuple[str, str]]:
    """Returns a name and an address for each view, and for each way of looking for tasks."""
    middle = size.steps // 2 + 1
    browse = {
        "tasks: newest": "",
        "tasks: a deep page": "page=40",
        "tasks: a kind and an author": "kind=code_i&teacher=T1",
        "tasks: a student": "student=S1",
        "tasks: a student, solved least": "student=S1&sort=rho",
        "tasks: refused": "status=refused",
        "tasks: everything, longest": "status=any&sort=-tokens",
        "tasks: everything valid, most nodes": "sort=-nodes",
        "tasks: at least 30 nodes, solved least": "nodes=30&sort=rho",
        "tasks: one step": f"from={middle}&to={middle}",
        "tasks: half of the steps, paid most": f"from={middle}&sort=-reward",
        "tasks: solve rate, new, oldest": "least=0.4&most=0.6&novel=1&sort=step",
        "tasks: nothing found": "teacher=nobody",
        "tasks: a text, found": "text=sorted",
        "tasks: a text, not found": "text=nowhere to be found",
        "tasks: a text in answers, not found": "text=nowhere to be found&in=answers",
    }
    whole = ("stamp", "state", "runs", "overview", "league", "matrix", "tree", "operators", "machine", "settings")
    pages = [(name, f"/api/{name}") for name in whole]
    pages += [(name, f"/api/tasks?{query}") for name, query in browse.items()]
    pages += [
        ("a task", f"/api/task?id={middle}.0.code_o.0"),
        ("a teacher", "/api/member?name=T0"),
        ("a student", "/api/member?name=S0"),
    ]
    return pages


def _measure(client: TestClient, name: str, address: str, rounds: int) -> dict[str, Any]:
    times: list[float] = []
    cpu_times: list[float] = []
    bytes_sent = 0
    for _ in range(rounds + 1):
        began = time.perf_counter()
        cpu_began = time.process_time()
        answer = client.get(address)
        times.append((time.perf_counter() - began) * 1000)
        cpu_times.append((time.process_time() - cpu_began) * 1000)
        # A proposal of the drawn run may be a refused one, but each address has an answer.
        answer.raise_for_status()
        bytes_sent = len(answer.content)
    return {
        "case": "views",
        "view": name,
        "first_ms": round(times[0], 1),
        "ms": round(median(times[1:]), 1),
        "worst_ms": round(max(times[1:]), 1),
        "cpu_ms": round(median(cpu_times[1:]), 1),
        "kb": round(bytes_sent / 1000, 1),
        "ms_rounds": [round(each, 1) for each in times],
    }
