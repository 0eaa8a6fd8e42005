"""A GPU day: its parts in order, each in a process of its own and within its time. Together they take ten minutes.

A fault of a GPU makes all later work of its process fail, and a kernel that never ends would take the day with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.gpu.output import END, PART, folder, keep
from benchmarks.timing import BenchmarkError

LIMITS = {
    "smoke": 60,
    "correct": 90,
    "run": 150,
    "7b": 150,
    "sampler": 90,
    "tests": 40,
    "cpu": 20,
}
"""The parts in their order, with the most seconds of each. The last ones also take what the others leave."""
WITHIN = sum(LIMITS.values())
"""The seconds of a whole day."""
# A processor with toy sizes is slower than a GPU.
_TINY_FACTOR = 5
# These end by themselves when they are done, and gain by every second.
_STRETCH = ("tests", "cpu")


def run_day(parts: Sequence[str], *, tiny: bool, within: float) -> None:
    """Runs parts of a day (default: all) in at most so many seconds.

    Their lines go to the terminal and to `day.log`, beside `day.jsonl`. Raises BenchmarkError at the end, if a part
    failed.
    """
    end = time.monotonic() + within
    if place := folder():
        place.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    for part in parts or LIMITS:
        left = end - time.monotonic()
        limit = left if part in _STRETCH else min(LIMITS[part] * (_TINY_FACTOR if tiny else 1), left)
        if limit <= 0:
            print(f"== {part}: left out, the time is over", flush=True)
            keep(name="outcome", value="left out", of=part)
            failed.append(part)
            continue
        print(f"== {part}", flush=True)
        start = time.perf_counter()
        outcome = _run(part, limit, tiny=tiny)
        seconds = round(time.perf_counter() - start, 1)
        print(f"== {part}: {outcome}, {seconds} s", flush=True)
        keep(name="outcome", value=outcome, of=part, seconds=seconds)
        if outcome != "ok":
            failed.append(part)
    if failed:
        raise BenchmarkError(f"of the day's parts, these are not ok: {', '.join(failed)}")


def _run(part: str, limit: float, *, tiny: bool) -> str:
    """Runs one part; returns "ok", or how it ended."""
    command = [sys.executable, "-m", "benchmarks", "gpu", part, *(["--tiny"] if tiny else [])]
    environment = {**os.environ, PART: part, END: str(time.monotonic() + limit), "PYTHONUNBUFFERED": "1"}
    # A session of its own, so that the processes that a part starts end with it.
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    # What is printed also goes to a file, line by line.
    place = folder()
    log = place / "day.log" if place else os.devnull
    copier = subprocess.Popen(["tee", "-a", str(log)], stdin=process.stdout)
    try:
        code = process.wait(limit)
        outcome = "ok" if code == 0 else f"exit status {code}"
    except subprocess.TimeoutExpired:
        outcome = f"not done in {limit:.0f} s"
    finally:
        # Whatever the part started must not hold the GPU when the next one begins.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _end(copier)
    return outcome


def _end(copier: subprocess.Popen[bytes]) -> None:
    """Waits for the last lines; a process that has left its part's session may hold the pipe for good."""
    try:
        copier.wait(2)
    except subprocess.TimeoutExpired:
        copier.kill()
        copier.wait()
