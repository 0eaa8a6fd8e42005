"""The parent's end of a zygote: starting it, sending it jobs, receiving how each child ended."""

from __future__ import annotations

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
from pathlib import Path
from typing import Any

from redqueen.sandbox.values import decode

RAN, WALL, FLOOD, NO_FORK, STOPPED, PART = range(6)
"""How a child was stopped, or that it runs on (`PART`); the zygote speaks of the same six."""

_HEADER = struct.Struct("!III")
_STOP = _HEADER.pack(0, 0, 0)
_REPLY = struct.Struct("!BiQI")
_FRAME = struct.Struct("!I")
_START_S = 60.0
_MOST_AT_ONCE = 1 << 16
_GRACE_S = 10.0
_FIRST_UID = 1_900_000_000  # above what systems hand out; each zygote gets a uid of its own
_uids = itertools.count()


class ZygoteError(Exception):
    """The zygote ended, hung or answered nonsense: the machine's fault, not the program's."""


@dataclass(frozen=True, slots=True)
class Reply:
    """How one child ended."""

    stop: int
    signal: int
    code: int
    cpu_ms: float
    wall_ms: float
    """The deadline it ran under, not the time it took."""


class Zygote:
    """A warm interpreter in another process, and the socket to it."""

    def __init__(self, hash_seed: int) -> None:
        ours, theirs = socket.socketpair()
        self.socket = ours
        self._received = bytearray()
        self._patience_s = 0.0
        uid = _FIRST_UID + (os.getpid() * 64 + next(_uids)) % 100_000_000
        script = str(Path(__file__).with_name("zygote.py"))
        # -I would be shorter than -s -S -P, but it ignores PYTHONHASHSEED; the zygote wipes the environment as soon
        # as it runs.
        options = ["-s", "-S", "-P", "-B", "-X", "utf8", "-W", "ignore"]
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, *options, script, str(uid), str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # LD_BIND_NOW: or each child would look up again the C functions that only children call
                env={"PYTHONHASHSEED": str(hash_seed), "LD_BIND_NOW": "1"},
                cwd="/",
                start_new_session=True,
            )
        try:
            self._wait_at_most(_START_S)
            size = _FRAME.unpack(self._receive(_FRAME.size))[0]
            self.walls: dict[str, Any] = decode(self._receive(size))
            if "failed" in self.walls:
                raise ZygoteError(f"it did not start: {self.walls['failed']}")
        except BaseException:
            self.close()
            raise

    def ask(self, request: bytes, wall_s: float, cap: int, hear: Callable[[bytes, bool], bool]) -> Reply:
        """Fork a child for `request` and wait for its end; raises `ZygoteError`.

        `hear` gets the child's bytes as they come, at most `cap` and a little, and whether it has ended. When it
        returns True the child is ended at once.
        """
        try:
            self._wait_at_most(wall_s + _GRACE_S)
            self.socket.sendall(_HEADER.pack(len(request), max(1, int(wall_s * 1000)), cap) + request)
            while True:
                stop, status, microseconds, data = self._answer(cap)
                if stop == NO_FORK:
                    raise ZygoteError("it could not fork")
                enough = hear(data, stop != PART)
                if stop != PART:
                    break
                if enough:
                    self.socket.sendall(_STOP)
        except BlockingIOError:
            raise ZygoteError("no answer in time") from None
        except OSError as error:
            raise ZygoteError(f"talking to the zygote: {error}") from error
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
        return Reply(stop, ended_by, code, microseconds / 1000, wall_s * 1000)

    def close(self) -> None:
        """End the zygote and whatever it left running."""
        self.socket.close()
        with contextlib.suppress(ProcessLookupError):  # it may have ended already
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _answer(self, cap: int) -> tuple[int, int, int, bytes]:
        """One message: how the child was stopped, wait status, CPU microseconds, its bytes."""
        stop, status, microseconds, size = _REPLY.unpack(self._receive(_REPLY.size))
        if size > cap + (1 << 16):
            raise ZygoteError("an answer above the cap")
        return stop, status, microseconds, self._receive(size)

    def _receive(self, size: int) -> bytes:
        """Exactly `size` bytes; what came with them waits for the next call."""
        while len(self._received) < size:
            chunk = self.socket.recv(_MOST_AT_ONCE)
            if not chunk:
                raise ZygoteError("the zygote ended")
            self._received += chunk
        data = bytes(self._received[:size])
        del self._received[:size]
        return data

    def _wait_at_most(self, seconds: float) -> None:
        """For each send and receive, by the kernel's own clock: `settimeout` would make two system calls of each."""
        if seconds != self._patience_s:
            self._patience_s = seconds
            timeout = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                self.socket.setsockopt(socket.SOL_SOCKET, option, timeout)
