"""Timing: contenders that take turns, CPU and wall seconds, fresh processes and peak memory."""

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
    """A measurement that cannot be made here. The message is one line and says what to do."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The cost of one turn. A part that a contender does not report is 0."""

    cpu_s: float
    """CPU seconds of all threads of the process that does the work."""
    wall_s: float
    tokens: int = 0
    """Tokens written or trained on; programs, in the sandbox's benchmark."""
    optimizer_cpu_s: float = 0.0
    """CPU seconds of the optimizer, part of `cpu_s`."""
    sampling_cpu_s: float = 0.0
    """CPU seconds of sampling, part of `cpu_s`."""
    decoding_cpu_s: float = 0.0
    """CPU seconds after the first token of each row, part of `cpu_s`."""


@dataclass(slots=True)
class Contender:
    """One way to do the work of a case."""

    name: str
    turn: Callable[[], Timing]
    """Does the work once."""
    turns: list[Timing] = field(default_factory=list[Timing])
    """The timings of all rounds, in their order."""


class Stopwatch:
    """CPU time of this process (all threads, user and system) and wall time, in seconds, of a `with` block.

    `start` and `stop` do the same by hand.
    """

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = 0.0
        self._started = (0.0, 0.0)

    def start(self) -> None:
        """Starts both clocks."""
        self._started = (time.process_time(), time.perf_counter())

    def stop(self) -> None:
        """Sets `cpu_s` and `wall_s` to the seconds since the start."""
        cpu, wall = self._started
        self.cpu_s = time.process_time() - cpu
        self.wall_s = time.perf_counter() - wall

    def __enter__(self) -> Self:
        # otherwise one contender might pay for the garbage of the one before it
        gc.collect()
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()


def take_turns(contenders: Sequence[Contender], rounds: int, log: Callable[[str], None], case: str) -> None:
    """Lets each contender take one uncounted turn, and then one turn in each of `rounds` rounds."""
    # The first turn of a contender loads libraries, compiles kernels and fills caches. A run pays for that once, so it
    # does not count.
    for contender in contenders:
        contender.turn()
    # Contenders take turns, so that a machine that becomes slower slows all of them. The order rotates by one in each
    # round: a fixed order would give one contender the advantage of always coming first, before caches and clock speed
    # have suffered from the others.
    for number in range(rounds):
        log(f"{case}: round {number + 1} of {rounds}")
        shift = number % len(contenders)
        for contender in [*contenders[shift:], *contenders[:shift]]:
            contender.turns.append(contender.turn())


def in_fresh_process(function: Callable[..., Any], *args: Any) -> Any:
    """Returns `function(*args)`, computed in a new interpreter that prints to standard error only."""
    # A fork would share the parent's memory, and resident pages of the parent would count as the child's.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        1, mp_context=context, initializer=quiet_child, initargs=(torch.get_num_threads(),)
    ) as one:
        return one.submit(function, *args).result()


def quiet_child(threads: int) -> None:
    """Prepares a child process: as many threads as its parent, and nothing on standard output, which may be JSON."""
    # Libraries in C print to the file descriptor, which a new `sys.stdout` would not catch.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    torch.set_num_threads(threads)


def peak(work: Callable[[], Any]) -> tuple[int, int]:
    """Returns the resident bytes of this process just before `work()`, and the most while it ran.

    Raises BenchmarkError where the system does not let a process reset its high-water mark (it needs Linux's /proc).
    """
    # Linux keeps the highest resident size of a process; writing 5 resets it to the present one. Looking again and
    # again from a thread would miss short peaks.
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
    """Returns an entry of /proc/self/status in bytes. Raises OSError if there is none."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"no {name} in /proc/self/status")
