"""What `python -m benchmarks sandbox` compares with: the two usual ways to run a generated program, written plainly.

Neither protects anything; both get the same programs, inputs and time limit. They run the project's own seed programs.
"""

from __future__ import annotations

import ast
import contextlib
import io
import multiprocessing
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from types import FrameType
from typing import Any

_CALL = "\nprint(repr([f(*arguments) for arguments in {arguments}]))\n"


def fresh(program: str, inputs: tuple[str, ...], cpu_s: float) -> str:
    """A new `python -I -S` for one program; what it printed, or "timeout" or "error"."""
    source = program + _CALL.format(arguments="[" + "".join(f"({text},)," for text in inputs) + "]")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", source],
            capture_output=True,
            text=True,
            timeout=cpu_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    return done.stdout if done.returncode == 0 else "error"


def fresh_twice(program: str, inputs: tuple[str, ...], cpu_s: float) -> str:
    """Two new interpreters that must agree: a determinism check made of fresh processes."""
    first, second = (fresh(program, inputs, cpu_s) for _ in range(2))
    return first if first == second else "nondeterministic"


def pooled(program: str, inputs: tuple[str, ...], cpu_s: float, passes: int = 1) -> str:
    """In a worker process that runs one program after another, as Absolute Zero's executor does.

    Pebble kills a worker whose program is late; an alarm inside the worker costs less, and flatters this peer.
    """

    def late(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, cpu_s)
    try:
        names: dict[str, Any] = {}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(program, names)
            runs = [repr([names["f"](*ast.literal_eval(f"({text},)")) for text in inputs]) for _ in range(passes)]
    except TimeoutError:
        return "timeout"
    except Exception:  # noqa: BLE001 - whatever a program raises
        return "error"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return runs[0] if len(set(runs)) == 1 else "nondeterministic"


def new_pool(workers: int) -> ProcessPoolExecutor:
    """Fresh interpreters, so that the pool does not share the caller's memory; started and warm."""
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    for started in [pool.submit(pooled, "def f():\n    return 1", ("",), 1.0) for _ in range(workers * 4)]:
        started.result()
    return pool
