"""The parent's end of a zygote: starts it, sends it jobs, and receives what each child wrote and how it ended."""

from __future__ import annotations

import compileall
import contextlib
import itertools
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from redqueen.sandbox import child
from redqueen.sandbox.child.protocol import (
    CHUNK,
    HEADER,
    LIMITS,
    NO_FORK,
    PART,
    REPLY,
    SIZE,
    START,
    UNRANDOMISED,
    WATCH,
)
from redqueen.sandbox.child.values import decode, marshalled, pack
from redqueen.sandbox.profile import Profile

_SCRIPT = Path(child.__file__).with_name("zygote.py")

# `-I` would be shorter than `-s -S -P`, but it ignores PYTHONHASHSEED. The zygote wipes its environment as soon as it
# runs.
_OPTIONS = ("-s", "-S", "-P", "-B", "-X", "utf8", "-W", "ignore")

_STOP = HEADER.pack(0, 0, 0)
_LARGE_BYTES = 1 << 25
_PAGE_BYTES = 1 << 17
_START_S = 60.0
_START_CPU_US = 10_000_000
_GRACE_S = 10.0
_MOST_AT_ONCE = 1 << 16

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
    settings = {"PYTHONHASHSEED": str(variant + 1), "LD_BIND_NOW": "1", "GLIBC_TUNABLES": tunables}
    return settings | ({"LD_PRELOAD": "libc.so.6"} if variant else {})


@cache
def _compile_child() -> None:
    """Compiles the zygote's modules once, where their folder can be written."""
    # A zygote that compiled them itself would have another heap, so addresses would differ between a first start and
    # all later ones. In a folder that cannot be written all starts are alike.
    compileall.compile_dir(_SCRIPT.parent, quiet=2)


class ZygoteError(Exception):
    """The zygote ended, hung or answered nonsense: the machine's fault, not the program's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a zygote is asked to do: one child."""

    request: bytes
    """`LIMITS` and the marshalled program and inputs."""
    wall_s: float
    cap: int
    """The most bytes that the child may write."""
    watch_s: float = 0.0
    """Seconds of CPU after which the child is ended, or 0. Unlike those in `request` it cannot know of this limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """How one child ended."""

    stop: int
    """One of the stop codes of `protocol.py`."""
    signal: int
    """The signal that ended the child, or 0."""
    code: int
    """The child's exit code, or -1."""
    cpu_ms: float
    wall_ms: float
    """The wall-clock limit it ran under, not the time it took."""


class Zygote:
    """A warm interpreter in another process, and the socket to it. Raises ZygoteError if it does not start."""

    def __init__(self, profile: Profile, variant: int) -> None:
        _compile_child()
        self.socket, theirs = socket.socketpair()
        self._received = bytearray()
        self._patience_s = 0.0
        self._children_us = 0
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
            self.isolation = self._introduce(profile, uid, variant)
            self._warm_up(profile.entry)
        except BaseException:
            self.close()
            raise

    def ask(self, asked: Asked, hear: Callable[[bytes, bool], bool]) -> Reply:
        """Has a child forked for a request and waits for its end. Raises ZygoteError if the zygote fails.

        `hear` gets the child's bytes as they come, at most `cap` and a little more, and whether the child has ended.
        When it returns True the child is ended at once.
        """
        self.send(asked)
        return self.wait(asked, hear)

    def send(self, asked: Asked) -> None:
        """Has a child forked for a request. `wait` must follow. Raises ZygoteError if the zygote fails."""
        try:
            self._wait_at_most(asked.wall_s + _GRACE_S)
            head = HEADER.pack(len(asked.request), max(1, int(asked.wall_s * 1000)), asked.cap)
            self.socket.sendall(head + asked.request + WATCH.pack(int(asked.watch_s * 1e6)))
        except BlockingIOError:
            raise ZygoteError("it does not read") from None
        except OSError as error:
            raise ZygoteError(f"talking to the zygote: {error}") from error

    def wait(self, asked: Asked, hear: Callable[[bytes, bool], bool]) -> Reply:
        """Waits for the end of the child of the request that was sent last; see `ask`."""
        cap = asked.cap
        try:
            while True:
                stop, status, microseconds, data = self._answer(cap)
                if stop == NO_FORK:
                    raise ZygoteError("it could not fork")
                # A child that is told to stop still has an end to report, so the loop goes on until that.
                enough = hear(data, stop != PART)
                if stop != PART:
                    break
                if enough:
                    self.socket.sendall(_STOP)
        except BlockingIOError:
            raise ZygoteError("no answer in time") from None
        except OSError as error:
            raise ZygoteError(f"talking to the zygote: {error}") from error
        cpu_ms = (microseconds - self._children_us) / 1000
        self._children_us = microseconds
        return Reply(
            stop=stop,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
            cpu_ms=cpu_ms,
            wall_ms=asked.wall_s * 1000,
        )

    def close(self) -> None:
        """Ends the zygote and every process that it started."""
        self.socket.close()
        # It may have ended already.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _introduce(self, profile: Profile, uid: int, variant: int) -> dict[str, Any]:
        """Sends the profile. Returns what the zygote says about the isolation that it achieved."""
        rules = profile.encoded()
        self._wait_at_most(_START_S)
        try:
            self.socket.sendall(START.pack(len(rules), uid, variant) + rules)
            size = SIZE.unpack(self._receive(SIZE.size))[0]
            isolation: dict[str, Any] = decode(self._receive(size))
        except ConnectionError:
            # It ended with the profile unread, which makes the socket report a reset and not its end.
            raise ZygoteError("the zygote ended") from None
        if "failed" in isolation:
            raise ZygoteError(f"it did not start: {isolation['failed']}")
        return isolation

    def _warm_up(self, entry: str) -> None:
        """Runs jobs that end in several ways, so that the heap is the same for the first program as for later ones."""
        program = f"def {entry}(x):\n    return x"
        short = marshalled((program, [pack(("x",))]))
        long = marshalled((program, [pack(("x" * CHUNK,))] * 3))
        endless = marshalled(("while True:\n    pass", [pack(())]))
        head = LIMITS.pack(_START_CPU_US, 1 << 26, 1, 2 * CHUNK, 0)
        for work, cap, watch_s in ((short, CHUNK, 0.0), (long, 8 * CHUNK, 0.0), (long, 1, 0.0), (endless, 1, 1e-3)):
            asked = Asked(request=head + work, wall_s=_START_S, cap=cap, watch_s=watch_s)
            self.ask(asked, lambda _data, _ended: False)

    def _answer(self, cap: int) -> tuple[int, int, int, bytes]:
        """One message: how the child was stopped, its wait status, CPU microseconds of all children, its bytes."""
        stop, status, microseconds, size = REPLY.unpack(self._receive(REPLY.size))
        if size > cap + CHUNK:
            raise ZygoteError("an answer above the cap")
        return stop, status, microseconds, self._receive(size)

    def _receive(self, size: int) -> bytes:
        """Exactly `size` bytes; what came with them is kept for the next call."""
        while len(self._received) < size:
            chunk = self.socket.recv(_MOST_AT_ONCE)
            if not chunk:
                raise ZygoteError("the zygote ended")
            self._received += chunk
        data = bytes(self._received[:size])
        del self._received[:size]
        return data

    def _wait_at_most(self, seconds: float) -> None:
        """Limits each send and receive by the kernel's own clock: `settimeout` would make two system calls of each."""
        if seconds != self._patience_s:
            self._patience_s = seconds
            timeout = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                self.socket.setsockopt(socket.SOL_SOCKET, option, timeout)
