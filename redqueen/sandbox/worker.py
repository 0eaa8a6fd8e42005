"""The parent side of one worker: two zygotes, and the step from a job to its outcome."""

from __future__ import annotations

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
from typing import Any, cast

from redqueen.sandbox.job import MAX_PROGRAM_BYTES, Job, Limits, Outcome, Status
from redqueen.sandbox.literals import parse_arguments, to_literal
from redqueen.sandbox.values import CodecError, OversizeError, canonical, decode, encode

HASH_SEEDS = {"A": 1, "B": 2}

_HEADER = struct.Struct("!III")
_REPLY = struct.Struct("!BiQI")
_FRAME = struct.Struct("!I")
_RAN, _WALL, _FLOOD, _NO_FORK = range(4)
_START_S = 30.0
_GRACE_S = 10.0
_FIRST_UID = 1_900_000_000  # above what systems hand out; each zygote gets a uid of its own
_uids = itertools.count()

_FROM_CHILD = ("ok", "malformed", "forbidden", "error", "memory", "oversize", "unsupported")
"""The only statuses that a child may claim; the others are the parent's to give."""


class ZygoteDied(Exception):
    """The zygote ended, hung or answered nonsense: the machine's fault until shown otherwise."""


@dataclass(frozen=True, slots=True)
class Reply:
    """How one child ended, and the bytes it left."""

    stop: int
    signal: int
    code: int
    cpu_ms: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Run:
    """One child's story, checked: decoded values for each pass."""

    status: Status
    detail: str
    passes: list[list[Any]]
    cpu_ms: float


class Zygote:
    """A warm interpreter in another process, and the socket to it."""

    def __init__(self, seed: int) -> None:
        ours, theirs = socket.socketpair()
        uid = _FIRST_UID + (os.getpid() * 64 + next(_uids)) % 100_000_000
        script = str(Path(__file__).with_name("zygote.py"))
        options = ["-s", "-S", "-P", "-B", "-X", "utf8", "-W", "ignore"]
        # -I would be shorter, but it ignores PYTHONHASHSEED; the zygote wipes its environment as soon as it runs.
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, *options, script, str(uid), str(os.getpid())],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PYTHONHASHSEED": str(seed)},
                cwd="/",
                start_new_session=True,
            )
        self.socket = ours
        try:
            deadline = time.monotonic() + _START_S
            size = _FRAME.unpack(self._receive(_FRAME.size, deadline))[0]
            self.walls: dict[str, Any] = decode(self._receive(size, deadline))
        except BaseException:
            self.close()
            raise

    def ask(self, request: bytes, wall_s: float, cap: int) -> Reply:
        """Fork a child for `request` and wait for its end; raises `ZygoteDied`."""
        deadline = time.monotonic() + wall_s + _GRACE_S
        try:
            self.socket.settimeout(wall_s + _GRACE_S)
            self.socket.sendall(_HEADER.pack(len(request), max(1, int(wall_s * 1000)), cap) + request)
        except OSError as error:
            raise ZygoteDied(f"sending a job: {error}") from error
        stop, status, microseconds, size = _REPLY.unpack(self._receive(_REPLY.size, deadline))
        if size > cap:
            raise ZygoteDied("an answer above the cap")
        data = self._receive(size, deadline)
        if stop == _NO_FORK:
            raise ZygoteDied("no fork")
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
        return Reply(stop, ended_by, code, microseconds / 1000, data)

    def close(self) -> None:
        """End the zygote and whatever it left running."""
        self.socket.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended already, and nobody is left in its group
        self.process.wait()

    def _receive(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ZygoteDied("no answer in time")
            self.socket.settimeout(left)
            try:
                chunk = self.socket.recv(min(size - len(data), 1 << 20))
            except OSError as error:
                raise ZygoteDied(f"waiting for an answer: {error}") from error
            if not chunk:
                raise ZygoteDied("the zygote ended")
            data += chunk
        return bytes(data)


class Worker:
    """Serves one job at a time. Zygotes are started when first needed and replaced when they die."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.zygotes: dict[str, Zygote] = {}

    def run(self, job: Job) -> Outcome:
        """The outcome of one job. A zygote that dies takes one retry with it, then it is `infra_error`."""
        try:
            inputs = self._inputs(job)
        except OversizeError as error:
            return Outcome("oversize", (), str(error), 0.0)
        except CodecError as error:
            return Outcome("malformed", (), str(error), 0.0)
        for attempt in range(2):
            try:
                return self._judge(job, inputs)
            except (ZygoteDied, OSError) as error:
                reason = f"{type(error).__name__}: {error}"
                self.close()
                del attempt
        return Outcome("infra_error", (), reason, 0.0)

    def close(self) -> None:
        """End both zygotes."""
        while self.zygotes:
            self.zygotes.popitem()[1].close()

    def _inputs(self, job: Job) -> list[bytes]:
        if len(job.program.encode("utf-8", "surrogatepass")) > MAX_PROGRAM_BYTES:
            raise OversizeError(f"a program of more than {MAX_PROGRAM_BYTES} bytes")
        encoded: list[bytes] = []
        for index, text in enumerate(job.inputs):
            try:
                encoded.append(encode(parse_arguments(text, self.limits.input_bytes)))
            except CodecError as error:
                raise type(error)(f"input {index}: {error}") from None
        return encoded

    def _judge(self, job: Job, inputs: list[bytes]) -> Outcome:
        cpu_s = self.limits.cpu_s / 2 if job.validate else self.limits.cpu_s
        run = self._child("A", job.program, inputs, passes=1, cpu_s=cpu_s)
        values = run.passes[0]
        outputs = tuple(to_literal(value) for value in values)
        if run.status != "ok":
            return Outcome(run.status, outputs, run.detail, run.cpu_ms)
        for index, text in enumerate(outputs):
            if len(text.encode()) > self.limits.output_bytes:
                detail = f"output {index} is more than {self.limits.output_bytes} bytes"
                return Outcome("oversize", outputs[:index], detail, run.cpu_ms)
        keys = [canonical(value) for value in values]
        if job.validate:
            detail = self._veto(job.program, inputs, keys, cpu_s)
            if detail:
                return Outcome("nondeterministic", outputs, detail, run.cpu_ms)
        for index, (found, wanted) in enumerate(zip(keys, job.expected or ())):
            if found != wanted:
                return Outcome("wrong", outputs, f"output {index} differs", run.cpu_ms)
        return Outcome("ok", outputs, "", run.cpu_ms)

    def _veto(self, program: str, inputs: list[bytes], keys: list[bytes], cpu_s: float) -> str:
        """Why interpreter B does not agree with A; empty when it does. B cannot change a value, only refuse."""
        run = self._child("B", program, inputs, passes=2, cpu_s=2 * cpu_s)
        if run.status != "ok":
            return f"second interpreter: {run.status} {run.detail}".strip()
        for name, values in zip(("another interpreter", "a second call"), run.passes):
            for index, (value, key) in enumerate(zip(values, keys)):
                if canonical(value) != key:
                    return f"output {index} differs in {name}"
        return ""

    def _child(self, which: str, program: str, inputs: list[bytes], passes: int, cpu_s: float) -> Run:
        # A value's bytes may be up to four times its literal text ("[0, 0]"); the text itself is measured later.
        value_limit = 4 * self.limits.output_bytes + 64
        memory = self.limits.memory_mb << 20
        request = encode((program, inputs, passes, int(cpu_s * 1e6), memory, value_limit), 1 << 28)
        cap = 8_192 + passes * len(inputs) * (value_limit + 16)
        zygote = self.zygotes.get(which)
        if zygote is None:
            zygote = self.zygotes[which] = Zygote(HASH_SEEDS[which])
        reply = zygote.ask(request, self.limits.wall_s, cap)
        return judge_reply(reply, len(inputs), passes, cpu_s)


def judge_reply(reply: Reply, inputs: int, passes: int, cpu_s: float) -> Run:
    """What a reply means. Exactly one whole frame, end of file and exit code 0, or the frame does not count."""
    nothing: list[list[Any]] = [[] for _ in range(passes)]
    if reply.stop == _WALL:
        return Run("timeout", "wall clock", nothing, reply.cpu_ms)
    if reply.stop == _FLOOD:
        return Run("oversize", "more output than the cap", nothing, reply.cpu_ms)
    if reply.signal == signal.SIGKILL and reply.cpu_ms >= cpu_s * 900:
        return Run("timeout", f"more than {cpu_s:g} s of CPU", nothing, reply.cpu_ms)
    if reply.signal:
        return Run("error", f"killed by {_signal_name(reply.signal)}", nothing, reply.cpu_ms)
    if reply.code != 0 or not reply.data:
        return Run("error", "ended without a result", nothing, reply.cpu_ms)
    try:
        status, detail, runs = _read_frame(reply.data, inputs, passes)
    except CodecError as error:
        return Run("error", f"not one well-formed result: {error}", nothing, reply.cpu_ms)
    return Run(status, detail, runs, reply.cpu_ms)


def _read_frame(data: bytes, inputs: int, passes: int) -> tuple[Status, str, list[list[Any]]]:
    """Status, detail and values of the one frame; raises `CodecError` for anything else a child may have written."""
    if len(data) < _FRAME.size or len(data) != _FRAME.size + _FRAME.unpack_from(data)[0]:
        raise CodecError("the bytes are not exactly one frame")
    record = decode(data[_FRAME.size :])
    if type(record) is not tuple or len(record) != 3:
        raise CodecError("not a result")
    status, detail, runs = cast(tuple[Any, Any, Any], record)
    if status not in _FROM_CHILD or type(detail) is not str or type(runs) is not list or len(runs) != passes:
        raise CodecError("not a result")
    values: list[list[Any]] = []
    for run in cast(list[Any], runs):
        if type(run) is not list or len(run) > inputs or (status == "ok" and len(run) != inputs):
            raise CodecError("not a result")
        values.append([decode(item) if type(item) is bytes else _refuse() for item in cast(list[Any], run)])
    plain = "".join(letter if letter.isprintable() else "?" for letter in detail[:200])
    return status, plain, values


def _refuse() -> None:
    raise CodecError("not an encoded value")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
