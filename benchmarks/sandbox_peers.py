"""The two usual ways to run a generated program, as peers of `python -m benchmarks sandbox`.

Neither protects the machine. Both get the same programs, inputs and time limit. They only run the seed programs of this
project.
"""

from __future__ import annotations

import ast
import contextlib
import io
import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from types import FrameType
from typing import Any

_CALL = "\nprint(repr([f(*arguments) for arguments in {arguments}]))\n"


def fresh(program: str, inputs: tuple[str, ...], cpu_s: float) -> str:
    """Runs one program in a new `python -I -S`; returns what it printed, or "timeout" or "error"."""
    # -I and -S make the start as fast as it can be: no site packages, no environment variables.
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
    """Runs one program in two new interpreters; returns "nondeterministic" if they do not agree."""
    first, second = (fresh(program, inputs, cpu_s) for _ in range(2))
    return first if first == second else "nondeterministic"


def pooled(program: str, inputs: tuple[str, ...], cpu_s: float, passes: int = 1) -> str:
    """Runs one program in a worker process that runs one after another, as Absolute Zero's executor does.

    Returns the outputs of the first pass, or "timeout", "error" or "nondeterministic".
    """
    # Absolute Zero uses Pebble, which kills a worker whose program is late and starts another. An alarm inside the
    # worker costs less, so this peer looks faster here than it is.

    def late(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, cpu_s)
    try:
        names: dict[str, Any] = {}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(program, names)
            runs = [_outputs(names["f"], inputs) for _ in range(passes)]
    except TimeoutError:
        return "timeout"
    except Exception:  # noqa: BLE001 - whatever a program raises
        return "error"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return runs[0] if len(set(runs)) == 1 else "nondeterministic"


def _outputs(function: Callable[..., Any], inputs: tuple[str, ...]) -> str:
    """Returns the outputs for all inputs as text."""
    return repr([function(*ast.literal_eval(f"({text},)")) for text in inputs])


def new_pool(workers: int) -> ProcessPoolExecutor:
    """Returns a warm pool whose workers are new interpreters."""
    # A forked worker would share the memory of this process, torch included. The first programs wait for the
    # interpreters to start; four for each worker make it likely that every worker had one.
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    for started in [pool.submit(pooled, "def f():\n    return 1", ("",), 1.0) for _ in range(workers * 4)]:
        started.result()
    return pool
