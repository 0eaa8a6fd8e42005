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
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redqueen.sandbox.values import decode

RAN, WALL, FLOOD, NO_FORK = range(4)
"""How a child was stopped; the zygote speaks of the same four."""

_HEADER = struct.Struct("!III")
_REPLY = struct.Struct("!BiQI")
_FRAME = struct.Struct("!I")
_START_S = 60.0
_GRACE_S = 10.0
_FIRST_UID = 1_900_000_000  # above what systems hand out; each zygote gets a uid of its own
_uids = itertools.count()


class ZygoteError(Exception):
    """The zygote ended, hung or answered nonsense: the machine's fault, not the program's."""


@dataclass(frozen=True, slots=True)
class Reply:
    """How one child ended, and the bytes it left."""

    stop: int
    signal: int
    code: int
    cpu_ms: float
    wall_ms: float
    """The deadline it ran under, not the time it took."""
    data: bytes


class Zygote:
    """A warm interpreter in another process, and the socket to it."""

    def __init__(self, hash_seed: int) -> None:
        ours, theirs = socket.socketpair()
        self.socket = ours
        uid = _FIRST_UID + (os.getpid() * 64 + next(_uids)) % 100_000_000
        script = str(Path(__file__).with_name("zygote.py"))
        # -I would be shorter than -s -S -P, but it ignores PYTHONHASHSEED, the only thing in the
        # environment; the zygote wipes it as soon as it runs.
        options = ["-s", "-S", "-P", "-B", "-X", "utf8", "-W", "ignore"]
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, *options, script, str(uid), str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PYTHONHASHSEED": str(hash_seed)},
                cwd="/",
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + _START_S
            size = _FRAME.unpack(self._receive(_FRAME.size, deadline))[0]
            self.walls: dict[str, Any] = decode(self._receive(size, deadline))
            if "failed" in self.walls:
                raise ZygoteError(f"it did not start: {self.walls['failed']}")
        except BaseException:
            self.close()
            raise

    def ask(self, request: bytes, wall_s: float, cap: int) -> Reply:
        """Fork a child for `request` and wait for its end; raises `ZygoteError`."""
        deadline = time.monotonic() + wall_s + _GRACE_S
        try:
            self.socket.settimeout(wall_s + _GRACE_S)
            self.socket.sendall(_HEADER.pack(len(request), max(1, int(wall_s * 1000)), cap) + request)
        except OSError as error:
            raise ZygoteError(f"sending a job: {error}") from error
        stop, status, microseconds, size = _REPLY.unpack(self._receive(_REPLY.size, deadline))
        if size > cap + (1 << 16):
            raise ZygoteError("an answer above the cap")
        data = self._receive(size, deadline)
        if stop == NO_FORK:
            raise ZygoteError("it could not fork")
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
        return Reply(stop, ended_by, code, microseconds / 1000, wall_s * 1000, data)

    def close(self) -> None:
        """End the zygote and whatever it left running."""
        self.socket.close()
        with contextlib.suppress(ProcessLookupError):  # it may have ended already
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _receive(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ZygoteError("no answer in time")
            self.socket.settimeout(left)
            try:
                chunk = self.socket.recv(min(size - len(data), 1 << 20))
            except OSError as error:
                raise ZygoteError(f"waiting for an answer: {error}") from error
            if not chunk:
                raise ZygoteError("the zygote ended")
            data += chunk
        return bytes(data)
