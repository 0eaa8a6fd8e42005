"""Whole programs that print, as other trainers send them: in the jail, over HTTP, and in fresh interpreters."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import psutil

from redqueen.jail import Job
from redqueen.jail.judging import PROGRAMS, script_job
from redqueen.records import Draft

SPIN = "while True:\n    pass"


def script(draft: Draft) -> str:
    """Returns a program that prints what `f` gives for its first input."""
    return f"{draft.program}\nprint(repr(f({draft.inputs[0]})))\n"


def job(draft: Draft, cpu_s: float) -> Job:
    """Returns the same as a job of the profile `PROGRAMS`."""
    return script_job(script(draft), "", replace(PROGRAMS.limits, cpu_s=cpu_s))


def fresh(source: str, cpu_s: float) -> str:
    """Runs a program in a new `python -I -S`; returns what it printed, or "timeout" or "error"."""
    command = [sys.executable, "-I", "-S", "-c", source]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=cpu_s, check=False)
    except subprocess.TimeoutExpired:
        return "timeout"
    return done.stdout if done.returncode == 0 else "error"


@contextlib.contextmanager
def service(workers: int) -> Iterator[tuple[str, int]]:
    """Yields host and port of a `redqueen jail serve` of its own."""
    command = [sys.executable, "-m", "redqueen", "jail", "serve", "--port", "0", "--workers", str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = [process.stdout.readline() for _ in range(2)] if process.stdout else []
            address = said[1].split("/")[2]
            yield address.partition(":")[0], int(address.partition(":")[2])
        finally:
            process.terminate()


def ask(host: str, port: int, source: str, cpu_s: float) -> Any:
    """Sends a program over a connection of its own, as verl's client does; returns the answer."""
    body = json.dumps({"code": source, "language": "python", "run_timeout": cpu_s})
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=120)) as connection:
        connection.request("POST", "/run_code", body, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())


def memory_mib(start: Callable[[], object], programs: int, seen: Sequence[int] = ()) -> float:
    """Returns the MiB of memory that the processes of `programs` endless programs take, which `start` starts.

    Each page counts by the share that a process has in it. `seen` are processes that do not count.
    """
    for _ in range(programs):
        start()
    # Until all of them run; they end by their limits.
    time.sleep(1.0)
    taken = 0
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            taken += 0 if child.pid in seen else child.memory_full_info().pss
    return taken / 2**20
