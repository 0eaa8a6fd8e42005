"""The parent's end of one child: sends its request, hears what it writes, holds it to its limits, learns how it ended.

The interpreter that forked the child knows nothing of all this (`child/mother.py`).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from redqueen.jail.child.protocol import LIMITS, PID, TRAILER

LOOK_MS = 5
"""While a child runs, the parent looks this often at what it has written."""

GRACE_S = 10.0
"""How much longer than its wall-clock limit a child may take to begin."""

_FIRST_WORD_MS = 1_000
_AT_ONCE = 1 << 16
_ORDER = b"!"
_DESCRIPTOR = struct.Struct("@i")
TIME = struct.Struct("@ll")
"""A struct timeval, as options of sockets take it."""


class ZygoteError(Exception):
    """An interpreter or a child ended, hung or answered nonsense: the machine's fault, not the program's."""


class NoChildError(ZygoteError):
    """An interpreter does not give children any more."""


class Stop(Enum):
    """How a child was stopped."""

    RAN = "it ended"
    WALL = "it met the wall clock"
    CPU = "it used more CPU time than `watch_s` allows"
    FLOOD = "it wrote more than `cap`"
    HEARD = "what it wrote was enough"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """What a child is asked to do."""

    limits: tuple[int, int, int, int]
    """CPU microseconds, bytes of memory, passes, most bytes of a value (`LIMITS`)."""
    processors: bytes
    """Those that the child may use, as the kernel takes them."""
    work: bytes
    """The marshalled program and inputs."""
    wall_s: float
    cap: int
    """The most bytes that the child may write."""
    watch_s: float = 0.0
    """Seconds of CPU after which the child is ended, or 0. Unlike those in `limits` it cannot know of this limit, so
    that no child can tell a program that is validated from one that is graded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """How one child ended."""

    stop: Stop
    signal: int
    """The signal that ended the child, or 0."""
    code: int
    """The child's exit code, or -1."""
    cpu_ms: float
    wall_ms: float
    """The wall-clock limit it ran under, not the time it took."""


class Child:
    """One child, from the order to its end. `wait` or `abandon` must follow. Raises NoChildError."""

    def __init__(self, orders: socket.socket, asked: ChildRequest, *, told: bool) -> None:
        """`told`: the mother says how the child ended, since it is not a child of this process."""
        self._asked = asked
        self._told = told
        # Told: the last bytes so far, which are the mother's if nothing follows.
        self._last = b""
        self._pid = 0
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                orders.sendmsg([_ORDER], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _DESCRIPTOR.pack(theirs.fileno()))])
            if len(asked.work) > _AT_ONCE:
                # Longer than the kernel keeps: the child has to read.
                patience_s = int(asked.wall_s + GRACE_S)
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TIME.pack(patience_s, 0))
            self._socket.sendall(LIMITS.pack(len(asked.work), *asked.limits) + asked.processors + asked.work)
        except OSError as error:
            self._socket.close()
            raise NoChildError(f"talking to the zygote: {error}") from error

    def wait(self, hear: Callable[[bytes, bool], bool]) -> Reply:
        """Waits for the child's end. Raises ZygoteError.

        `hear` gets the child's bytes as they come, at most `cap`, and whether the child has ended. When it returns True
        the child is ended at once. The wall clock stands meanwhile.
        """
        try:
            stop = self._relay(hear)
            status, microseconds = self._end(stop)
        finally:
            self.abandon()
        return Reply(
            stop=stop,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
            cpu_ms=microseconds / 1000,
            wall_ms=self._asked.wall_s * 1000,
        )

    def abandon(self) -> None:
        """Ends the child if it still runs, and forgets it."""
        if not self._pid and self._socket.fileno() >= 0:
            # A child that has just been forked is about to say who it is.
            ends = select.poll()
            ends.register(self._socket, select.POLLIN)
            ends.poll(_FIRST_WORD_MS)
            self._read()
        self._socket.close()
        if self._pid:
            self._kill()
            if not self._told:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(self._pid, 0)
            self._pid = 0

    def _relay(self, hear: Callable[[bytes, bool], bool]) -> Stop:
        """Hears what the child writes, up to its end or to a limit."""
        # Registered without POLLIN: this thread sleeps while the child writes its small values.
        ends = select.poll()
        ends.register(self._socket, 0)
        remaining = self._asked.cap
        begun = time.monotonic()
        while True:
            ended = bool(ends.poll(LOOK_MS))
            waited = not self._pid
            reading = time.monotonic()
            while (data := self._read()) is not None:
                remaining -= len(data)
                if remaining < 0:
                    return Stop.FLOOD
                if data and hear(data, ended):
                    return Stop.HEARD
            now = time.monotonic()
            # A child that writes much waits while this process reads, and uses no CPU: it would look starved.
            begun += now - reading
            if not self._pid:
                if ended or now - begun > self._asked.wall_s + GRACE_S:
                    raise NoChildError("it could not fork" if ended else "no answer in time")
                continue
            if ended:
                return Stop.RAN
            if waited:
                begun = now
            if now - begun > self._asked.wall_s:
                return Stop.WALL
            if self._asked.watch_s and _cpu_s(self._pid) > self._asked.watch_s:
                return Stop.CPU

    def _read(self) -> bytes | None:
        """Returns what the child has written and was not read yet, or None if that is nothing."""
        try:
            data = self._socket.recv(_AT_ONCE, socket.MSG_DONTWAIT)
        except (BlockingIOError, ConnectionResetError):
            return None
        if not data:
            return None
        if not self._pid:
            self._pid = PID.unpack_from(data)[0]
            data = data[PID.size :]
        if self._told:
            data = self._last + data
            self._last = data[-TRAILER.size :]
            data = data[: -TRAILER.size]
        return data

    def _end(self, stop: Stop) -> tuple[int, int]:
        """Ends the child if it has not ended by itself. Returns its wait status, and its CPU time in microseconds."""
        if stop is not Stop.RAN:
            self._kill()
        if self._told:
            return self._hear_mother()
        try:
            pid, status, usage = os.wait4(self._pid, os.WNOHANG)
            if not pid:
                # It has closed its socket and not ended yet. Without the filter of system calls it may stay like that.
                if not _ends(self._pid, self._asked.wall_s):
                    self._kill()
                pid, status, usage = os.wait4(self._pid, 0)
        except ChildProcessError:
            raise ZygoteError("something else in this process waits for its children") from None
        finally:
            # It has been waited for elsewhere: the number may belong to another process now.
            self._pid = 0
            self._socket.close()
        return status, int((usage.ru_utime + usage.ru_stime) * 1e6)

    def _hear_mother(self) -> tuple[int, int]:
        self._socket.settimeout(GRACE_S)
        try:
            while data := self._socket.recv(_AT_ONCE):
                self._last = (self._last + data)[-TRAILER.size :]
        except OSError as error:
            raise NoChildError(f"talking to the zygote: {error}") from error
        if len(self._last) < TRAILER.size:
            raise NoChildError("the zygote ended")
        self._pid = 0
        return TRAILER.unpack(self._last)

    def _kill(self) -> None:
        # It has not been waited for, so the number is still its own.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)


def _cpu_s(pid: int) -> float:
    """CPU time of another process so far, in seconds (0 where the system does not say)."""
    # The number of a process's CPU clock, as `clock_getcpuclockid` of the C library makes it.
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)
    return 0.0


def _ends(pid: int, seconds: float) -> bool:
    """Whether a process ends in time."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], (), (), seconds)[0])
    finally:
        os.close(descriptor)
