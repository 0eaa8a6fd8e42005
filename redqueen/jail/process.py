"""The parent's end of a zygote: starts it, and orders children of it. A pool has one of each kind."""

from __future__ import annotations

import compileall
import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import zlib
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from redqueen.jail import child
from redqueen.jail.child.protocol import MOST_START_BYTES, PROCESSORS_BYTES, START, UNRANDOMISED
from redqueen.jail.child.values import decode
from redqueen.jail.job import Profile
from redqueen.jail.running import GRACE_S, TIME, Child, ChildRequest, NoChildError, ZygoteError

_SCRIPT = Path(child.__file__).with_name("zygote.py")

# `-I` would be shorter than `-s -S -P`, but it ignores PYTHONHASHSEED. The zygote wipes its environment as soon as it
# runs.
_OPTIONS = ("-s", "-S", "-P", "-B", "-X", "utf8", "-W", "ignore")

_LARGE_BYTES = 1 << 25
_PAGE_BYTES = 1 << 17
_START_S = 60.0

_FIRST_UID = 1_900_000_000
"""Above the uids that systems hand out; each zygote of a root process gets one of its own."""
_uids = itertools.count()


def _environment(variant: int) -> dict[str, str]:
    """What a zygote starts with, and wipes as soon as it runs.

    LD_BIND_NOW: otherwise each child looks up again the C functions that only children call. GLIBC_TUNABLES: no area in
    which the kernel writes a child's processor; large objects lie below each other in A and above each other elsewhere,
    and no request of the past decides about that. LD_PRELOAD: the C library lies at a random page of its own, which
    else depends on where the kernel aligns the interpreter's.
    """
    threshold = _LARGE_BYTES if variant else _PAGE_BYTES
    tunables = f"glibc.pthread.rseq=0:glibc.malloc.mmap_threshold={threshold}"
    settings = {"PYTHONHASHSEED": str(variant + 1), "LD_BIND_NOW": "1", "TZ": "UTC0", "GLIBC_TUNABLES": tunables}
    return settings | ({"LD_PRELOAD": "libc.so.6"} if variant else {})


@cache
def _compile_child() -> None:
    """Compiles the zygote's modules once, where their folder can be written."""
    # A zygote that compiled them itself would have another heap, so addresses would differ between a first start and
    # all later ones. In a folder that cannot be written all starts are alike.
    compileall.compile_dir(_SCRIPT.parent, quiet=2)


class Zygote:
    """A warm interpreter in other processes, and the socket to them. Raises ZygoteError if it does not start."""

    def __init__(self, profile: Profile, variant: int, mothers: int = 1) -> None:
        """`mothers`: how many equal processes fork children at the same time."""
        _compile_child()
        # Each order is one message, which goes to a mother that waits for one.
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.failed = False
        """Whether it has failed to give a child."""
        uid = _FIRST_UID + (os.getpid() * 64 + next(_uids)) % 100_000_000
        with theirs:
            self.process = subprocess.Popen(
                # No number of a process: a program may find its command line.
                [sys.executable, *_OPTIONS, str(_SCRIPT), *([] if variant else [UNRANDOMISED])],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(variant),
                cwd="/",
                start_new_session=True,
            )
        try:
            self.isolation = self._introduce(profile, uid, variant, mothers)
        except BaseException:
            self.close()
            raise

    def order(self, asked: ChildRequest) -> Child:
        """Has a child forked. Raises NoChildError."""
        try:
            return Child(self.socket, asked, told=bool(self.isolation["traces"]))
        except NoChildError:
            self.failed = True
            raise

    def alive(self) -> bool:
        """Whether it has not ended, and has not failed to give a child."""
        # Without taking note of its end, which would free its number.
        ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return ended is None and not self.failed

    def close(self) -> None:
        """Ends the zygote and every process that it started."""
        self.socket.close()
        # It may have ended already.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        # Other mothers, and children that were not waited for.
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitid(os.P_PGID, self.process.pid, os.WEXITED)

    def _introduce(self, profile: Profile, uid: int, variant: int, mothers: int) -> dict[str, Any]:
        """Sends the profile. Returns what the zygote says about the isolation that it achieved."""
        self.socket.settimeout(_START_S)
        try:
            self.socket.sendall(START.pack(mothers, uid, variant) + profile.encoded())
            answer = self.socket.recv(MOST_START_BYTES)
        except OSError as error:
            raise ZygoteError(f"talking to the zygote: {error}") from error
        if not answer:
            raise ZygoteError("the zygote ended")
        isolation: dict[str, Any] = decode(answer)
        if "failed" in isolation:
            raise ZygoteError(f"it did not start: {isolation['failed']}")
        # By the kernel's own clock: `settimeout` would make two system calls of each.
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TIME.pack(int(GRACE_S), 0))
        return isolation


# The interpreters of a pool: one zygote of each kind, started when it is first needed and replaced when it fails.

VARIANTS = {"A": 0, "B": 1, "C": 2, "D": 3, "E": 4, "F": 5, "G": 6}
"""The interpreters. A gives the values. The others, where hashes, addresses and limits differ, only check them: B does
so for every program, the rest for those whose code, as B finds, could show a hash or an address."""


class Interpreters:
    """Up to seven zygotes, which all workers of a pool share: whichever serves, a program meets the same bytes."""

    def __init__(self, profile: Profile, workers: int = 1) -> None:
        self.profile = profile
        self.zygotes: dict[str, Zygote] = {}
        # As many mothers as children at a time: a worker that waits for another's fork is late where cores are busy.
        self._mothers = workers
        usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
        bits = [1 << number for number in sorted(usable) if number < 8 * PROCESSORS_BYTES]
        self._each = [bit.to_bytes(PROCESSORS_BYTES, "little") for bit in bits]
        self._all = sum(bits).to_bytes(PROCESSORS_BYTES, "little")
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def get(self, which: str) -> Zygote:
        """Returns an interpreter that serves. Raises ZygoteError if it does not start."""
        with self._locks[which]:
            zygote = self.zygotes.get(which)
            if zygote is not None and zygote.alive():
                return zygote
            if zygote is not None:
                del self.zygotes[which]
                zygote.close()
            self.zygotes[which] = Zygote(self.profile, VARIANTS[which], self._mothers)
            return self.zygotes[which]

    def processors(self, program: str | None = None) -> bytes:
        """Returns the processors that children may use; of a program that is given, the one that its text decides."""
        if program is None or not self._each:
            return self._all
        return self._each[zlib.crc32(program.encode("utf-8", "surrogatepass")) % len(self._each)]

    def close(self) -> None:
        while self.zygotes:
            self.zygotes.popitem()[1].close()
