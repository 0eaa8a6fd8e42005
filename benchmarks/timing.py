"""How things are timed: contenders take turns round by round; CPU and wall seconds; fresh processes where wanted."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import torch

from redqueen.errors import UserError


class BenchmarkError(UserError):
    """A measurement that cannot be made here; the message is one line and says what to do."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What one turn took: CPU seconds of all threads, wall seconds, tokens handled, and of the CPU seconds those of the
    optimizer, of sampling, and of decoding after the prompts' first tokens.
    """

    cpu_s: float
    wall_s: float
    tokens: int = 0
    optimizer_cpu_s: float = 0.0
    sampling_cpu_s: float = 0.0
    decoding_cpu_s: float = 0.0


@dataclass(slots=True)
class Contender:
    """One way to do the case's work. `turn` does it once and says what it took."""

    name: str
    turn: Callable[[], Timing]
    turns: list[Timing] = field(default_factory=list[Timing])


class Stopwatch:
    """CPU time of this process (all threads, user and system) and wall time, in seconds, of a `with` block.

    `start` and `stop` do the same by hand.
    """

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = 0.0
        self._started = (0.0, 0.0)

    def start(self) -> None:
        self._started = (time.process_time(), time.perf_counter())

    def stop(self) -> None:
        cpu, wall = self._started
        self.cpu_s, self.wall_s = time.process_time() - cpu, time.perf_counter() - wall

    def __enter__(self) -> Self:
        gc.collect()
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()


def take_turns(contenders: Sequence[Contender], rounds: int, log: Callable[[str], None], case: str) -> None:
    """One uncounted turn of each, then `rounds` rounds; the round's first contender changes, so that none always
    follows the same one.
    """
    for contender in contenders:
        contender.turn()
    for number in range(rounds):
        log(f"{case}: round {number + 1} of {rounds}")
        shift = number % len(contenders)
        for contender in [*contenders[shift:], *contenders[:shift]]:
            contender.turns.append(contender.turn())


def in_fresh_process(function: Callable[..., Any], *args: Any) -> Any:
    """`function(*args)` in a new interpreter that ends afterwards; what it prints goes to standard error."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        1, mp_context=context, initializer=quiet_child, initargs=(torch.get_num_threads(),)
    ) as one:
        return one.submit(function, *args).result()


def quiet_child(threads: int) -> None:
    """For a process of our own: as many threads as its parent has, and no word on standard output (it may be JSON)."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    torch.set_num_threads(threads)


def peak(work: Callable[[], Any]) -> tuple[int, int]:
    """Resident bytes of this process just before `work()`, and at most while it ran.

    Raises BenchmarkError where the system does not let a process reset its high-water mark (it needs Linux's /proc).
    """
    gc.collect()
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        before = _status("VmRSS")
        work()
        return before, _status("VmHWM")
    except OSError as error:
        raise BenchmarkError("peak memory is read from Linux's /proc, which this system does not offer") from error


def _status(name: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"no {name} in /proc/self/status")
