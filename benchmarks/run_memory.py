"""Memory of whole runs: the most that their processes hold, compared with the estimate that a run starts with.

Resident memory depends on the memory allocator and on what else the machine does, so this is a measurement and no test.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import Report, log
from benchmarks.system import BenchmarkConfig
from benchmarks.timing import BenchmarkError
from redqueen.config.recipes import configure
from redqueen.engine.memory.estimate import items, total
from redqueen.engine.memory.machine import Demand, this_machine
from redqueen.engine.model.dimensions import token_counter
from redqueen.method.prompt_lengths import prompt_lengths

WORKERS = (1, 2)
STEPS = 3
CASE = f"a whole run: {STEPS} steps of the recipe quickstart"
_INTERVAL_S = 0.05
"""Seconds between two looks at the processes' memory."""


def measure_runs(config: BenchmarkConfig, report: Report) -> None:
    """Adds a row for a run with each number of worker processes, or a line that says why this is impossible."""
    # The estimate decides whether a run may start. It must not be below the real peak, or runs are killed; and if it is
    # far above, runs that would fit are refused.
    peaks: dict[int, int] = {}
    try:
        for workers in WORKERS:
            log(f"{CASE}, {_named(workers)}")
            peaks[workers] = run_peak(run_arguments(config, workers))
    except BenchmarkError as why:
        report.unavailable("memory of whole runs", why)
        return
    for workers, most in peaks.items():
        need = run_estimate(run_arguments(config, workers))
        report.results.append(_row(workers, most, need, peaks[WORKERS[0]]))


def run_arguments(config: BenchmarkConfig, workers: int) -> list[str]:
    """Returns the arguments of `redqueen train` for a short run."""
    return [
        "quickstart",
        f"model.name={config.model}",
        f"model.dtype={config.dtype}",
        f"model.threads={config.threads}",
        f"model.workers={workers}",
        f"run.steps={STEPS}",
    ]


def run_estimate(args: list[str]) -> int:
    """Returns the bytes that such a run is estimated to need."""
    config = configure(args)
    lengths = prompt_lengths(config.play_settings, token_counter(config.model))
    return total(items(Demand.of(config, this_machine(config.model), lengths, config.capacity)))


def run_peak(args: list[str]) -> int:
    """Plays the run in processes of its own; returns the most bytes that they held at one time.

    Raises BenchmarkError if the run fails or where the system has no /proc.
    """
    with tempfile.TemporaryDirectory() as folder:
        return peak_of([*args, "--run", f"{folder}/run"])


def peak_of(args: list[str]) -> int:
    """Runs `redqueen train` with these arguments; returns the most bytes that its processes held at one time.

    The sandbox is not counted: its programs have a limit of their own, and the estimate leaves them out too.
    Raises BenchmarkError if the run fails or where the system has no /proc.
    """
    if not Path("/proc/self/status").exists():
        raise BenchmarkError("resident memory is read from Linux's /proc, which this system does not offer")
    # What the run prints is kept in a file, not in a pipe: a full pipe would block the run, since no one reads it
    # meanwhile.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen([sys.executable, "-m", "redqueen", "train", *args], stdout=output, stderr=output)
        try:
            most = _watch(process)
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        lines = output.read().splitlines() or ["it printed nothing"]
    if process.returncode:
        raise BenchmarkError(f"the run ended with exit code {process.returncode}: {lines[-1]}")
    return most


def _watch(process: subprocess.Popen[bytes]) -> int:
    """Returns the most bytes that the processes held at one time, looking at them until the run has ended."""
    # The high-water mark of each process would not do: their peaks may be at different times, and their sum is then
    # more than was ever held at once.
    most = 0
    while process.poll() is None:
        most = max(most, resident([process.pid, *_workers_of(process.pid)]))
        time.sleep(_INTERVAL_S)
    return most


def resident(pids: list[int]) -> int:
    """Returns the resident bytes of these processes together."""
    # All processes map the same libraries and the same shared weights. Those pages exist once, so the largest count is
    # taken; private memory is added up.
    private = files = shared = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        except OSError:
            # the process has ended meanwhile
            continue
        sizes = dict(line.split(":", 1) for line in lines if line.startswith("Rss"))
        # a process that is just ending has no sizes
        if sizes:
            private += _bytes(sizes["RssAnon"])
            files = max(files, _bytes(sizes["RssFile"]))
            shared = max(shared, _bytes(sizes["RssShmem"]))
    return private + files + shared


def _bytes(kilobytes: str) -> int:
    """Returns the bytes of an entry like `  1234 kB`."""
    return int(kilobytes.split()[0]) * 1024


def _workers_of(pid: int) -> list[int]:
    """Returns the process ids of the run's worker processes, which multiprocessing starts with `spawn_main`."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        # the run has ended meanwhile
        return []
    return [int(child) for child in children if b"spawn_main" in _command(child)]


def _command(pid: str) -> bytes:
    """Returns the command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _named(workers: int) -> str:
    return f"{workers} worker{'s' if workers > 1 else ''}"


def _row(workers: int, most: int, need: int, one: int) -> dict[str, Any]:
    return {
        "ratio": round(most / one, 3),
        "case": CASE,
        "how": _named(workers),
        "peak_mb": round(most / 1e6, 1),
        "estimate_mb": round(need / 1e6, 1),
        "error": round(need / most - 1, 3),
        "peak_bytes_rounds": [most],
    }
