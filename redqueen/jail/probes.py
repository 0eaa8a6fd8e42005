"""What the jail asks and sets of the machine: its cores, and what isolation it gives, by hostile programs."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from dataclasses import dataclass

from redqueen.jail.job import GAME, Job, Limits
from redqueen.jail.literals import parse_literal
from redqueen.jail.process import Interpreters
from redqueen.jail.worker import Worker


def cores() -> int:
    """Returns how many cores this process may use."""
    # The affinity mask counts, not the machine: in a container or under taskset the two differ, and threads beyond the
    # mask only slow each other down. Not every platform has the call.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def hear_of_children() -> None:
    """Has the kernel say how child processes end. Its parent may have set that it does not."""
    # Only the main thread may. In another one the sandbox says that it does not start, and why.
    ignored = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


FULL = "full"
NO_LANDLOCK = "no-landlock"
CLOCKS = "readable-clocks"
SAME_USER = "same-user"
PROCESS = "process"
"""The tiers. `full`: every promise holds, behind seccomp and Landlock. `no-landlock`: seccomp alone keeps them.
`same-user`: programs run as root, without a capability. `readable-clocks`: a program can find the time, so that only
the determinism check keeps results from depending on it.
`process`: a promise is broken; a program has limits and a process of its own, and nothing else holds it."""

# A probe needs little CPU, but a machine may be so busy that this takes long; then it is slow and not unsafe.
_LIMITS = Limits(cpu_s=0.2, wall_s=60.0, memory_mb=64)


class IsolationError(RuntimeError):
    """The machine cannot keep the sandbox's promises, and the caller has not accepted that."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One question, answered by a real child."""

    name: str
    ok: bool
    detail: str
    required: bool = True
    """Whether a promise is broken if this is not `ok`."""


# What a hostile program reaches by introspection, although it may import none of it.
_REACH = """
import functools
real_import = functools.__builtins__["__import__"]
os, ctypes, time, struct = map(real_import, ("os", "ctypes", "time", "struct"))
libc = ctypes.CDLL(None, use_errno=True)
def f():
    try:
        result = attempt()
    except OSError as error:
        return "refused: " + type(error).__name__
    return "refused" if result == -1 else "not refused"
def attempt():
    return """

_ATTEMPTS = {
    "files": "os.open('/', os.O_RDONLY)",
    "sockets": "libc.socket(2, 1, 0)",
    "processes": "libc.fork() or os._exit(0)",
    "programs": "os.execv('/bin/true', ['true'])",
    "signals": "os.kill(os.getppid(), 0)",
    "environment": "len(os.environ) + len(real_import('posix').environ) - 1",
}


# The kernel keeps the seconds since 1970 as an integer of eight bytes. Before Linux 6.13 the pages were four, now six.
_TIME_PAGES = 8
_NEAR_S = 1_000
_SEARCH = """
def search():
    libc.getauxval.restype = ctypes.c_ulong
    page = ctypes.string_at(libc.getauxval(ctypes.c_ulong(33)) - {page} * 4096, 4096)
    return 0 if any({low} < word < {high} for word, in struct.iter_unpack("<q", page)) else -1
"""


def probe() -> tuple[str, list[Probe]]:
    """The isolation tier, and what each probe found. Takes about half a second, once in a process."""
    hear_of_children()
    tier, probes = _probe_once()
    return tier, list(probes)


@functools.cache
def _probe_once() -> tuple[str, tuple[Probe, ...]]:
    interpreters = Interpreters(GAME.with_limits(_LIMITS))
    worker = Worker(interpreters)
    try:
        probes = [_attempt(worker, name, code) for name, code in _ATTEMPTS.items()]
        clocks = _clocks(worker)
        probes.append(_limit(worker, "CPU limit", "while True: pass", "timeout"))
        probes.append(_limit(worker, "memory limit", "return len(bytearray(10 ** 9))", "memory"))
        probes.append(_differs(worker, "hash seeds", "hash('a')"))
        probes.append(_differs(worker, "addresses", "id(object())"))
        # No zygote starts here, so that none of the probes ran.
        if "A" not in interpreters.zygotes:
            return PROCESS, (Probe("start", False, probes[-1].detail),)
        isolation = interpreters.zygotes["A"].isolation
    finally:
        interpreters.close()
    # What the zygote could not take away, it says. What it took away, the probe looks for.
    readable_by = str(isolation["clocks"]) or ("" if clocks.ok else clocks.detail)
    randomised = "the kernel keeps address randomisation on, so that more is left to chance"
    layout = "" if isolation["unrandomised"] else randomised
    probes += [
        Probe("seccomp", bool(isolation["seccomp"]), "" if isolation["seccomp"] else "the filter does not load"),
        Probe("landlock", not isolation["landlock"], str(isolation["landlock"]), required=False),
        Probe("own user", bool(isolation["unprivileged"]), "", required=False),
        Probe("clocks", readable_by == "", readable_by or clocks.detail, required=False),
        Probe("same start", isolation["traces"] == "", str(isolation["traces"]), required=False),
        Probe("fixed layout", bool(isolation["unrandomised"]), layout, required=False),
    ]
    if not all(result.ok for result in probes if result.required):
        return PROCESS, tuple(probes)
    if readable_by:
        return CLOCKS, tuple(probes)
    if isolation["landlock"]:
        return NO_LANDLOCK, tuple(probes)
    return (FULL if isolation["unprivileged"] else SAME_USER), tuple(probes)


def _clocks(worker: Worker) -> Probe:
    """Whether a child finds the time: by a call, or in the pages from which the vDSO reads it, which lie below it."""
    asked = _attempt(worker, "clocks", "time.time()")
    if not asked.ok:
        return asked
    # A page that is not there kills the child: that, too, is a refusal.
    now = int(time.time())
    for page in range(1, _TIME_PAGES + 1):
        code = _SEARCH.format(page=page, low=now - _NEAR_S, high=now + _NEAR_S)
        outcome = worker.run(Job(_REACH + "search()\n" + code, ("",)))
        if outcome.detail not in ("killed by SIGSEGV", "killed by SIGBUS") and outcome.outputs != ("'refused'",):
            return Probe(
                "clocks", False, f"page {page} below the vDSO: {outcome.status}: {outcome.detail or outcome.outputs[0]}"
            )
    return asked


def _attempt(worker: Worker, name: str, code: str) -> Probe:
    """A hostile program tries one thing. It must end by itself and say that it was refused."""
    outcome = worker.run(Job(_REACH + code, ("",)))
    if outcome.status != "ok":
        return Probe(name, False, f"{outcome.status}: {outcome.detail}")
    answer = str(parse_literal(outcome.outputs[0]))
    return Probe(name, answer.startswith("refused"), answer)


def _limit(worker: Worker, name: str, body: str, status: str) -> Probe:
    """A program exceeds a limit, and must be stopped by that limit."""
    outcome = worker.run(Job(f"def f():\n    {body}", ("",)))
    return Probe(name, outcome.status == status, outcome.detail)


def _differs(worker: Worker, name: str, code: str) -> Probe:
    """The two interpreters must give different values, or the determinism check could not see this."""
    outcome = worker.run(Job(f"def f():\n    return {code}", ("",), validate=True))
    wanted = ("nondeterministic", "output 0 differs in another interpreter")
    return Probe(name, (outcome.status, outcome.detail) == wanted, outcome.detail)
