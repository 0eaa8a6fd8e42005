"""One worker: from a job to its outcome, by way of two zygotes. All judging happens here, in the parent."""

from __future__ import annotations

import signal
import struct
from dataclasses import dataclass
from typing import Any, cast

from redqueen.sandbox.job import MAX_PROGRAM_BYTES, Job, Limits, Outcome, Status
from redqueen.sandbox.literals import parse_arguments, to_literal
from redqueen.sandbox.process import FLOOD, WALL, Reply, Zygote, ZygoteError
from redqueen.sandbox.values import CodecError, OversizeError, canonical, decode, encode

HASH_SEEDS = {"A": 1, "B": 2}

_FRAME = struct.Struct("!I")
_LOCKED = b"L"
_FROM_CHILD = ("ok", "malformed", "forbidden", "error", "memory", "oversize", "unsupported")
"""The only statuses that a child may claim; the others are the parent's to give."""


@dataclass(frozen=True, slots=True)
class Run:
    """One child's story: status, one line, and for each pass the encoded values (not yet decoded)."""

    status: Status
    detail: str
    passes: list[list[bytes]]
    cpu_ms: float


class Worker:
    """Serves one job at a time. Zygotes are started when first needed and replaced when they die."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.zygotes: dict[str, Zygote] = {}

    def run(self, job: Job) -> Outcome:
        """The outcome of one job. If a zygote dies the job is tried once more, then it is `infra_error`."""
        try:
            inputs = self._inputs(job)
        except OversizeError as error:
            return Outcome("oversize", (), str(error), 0.0)
        except CodecError as error:
            return Outcome("malformed", (), str(error), 0.0)
        reason = ""
        for _ in range(2):
            try:
                return self._judge(job, inputs)
            except (ZygoteError, OSError) as error:
                reason = str(error)
                self.close()
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
        outputs: list[str] = []
        keys: list[bytes] = []
        for index, data in enumerate(run.passes[0]):
            try:
                value = decode(data)
                text, key = to_literal(value), canonical(value)
            except CodecError as error:  # our own encoder never writes such bytes: the program did
                return Outcome("error", tuple(outputs), f"a forged value: {error}", run.cpu_ms)
            if len(text.encode()) > self.limits.output_bytes:
                detail = f"output {len(outputs)} is more than {self.limits.output_bytes} bytes"
                return Outcome("oversize", tuple(outputs), detail, run.cpu_ms)
            outputs.append(text)
            keys.append(key)
            if job.expected is not None and key != job.expected[index]:
                # The first miss decides, whatever became of the inputs after it.
                return Outcome("wrong", tuple(outputs), f"output {index} differs", run.cpu_ms)
        status, detail = run.status, run.detail
        if status == "ok" and job.validate:
            status, detail = self._check_determinism(job.program, inputs, keys, cpu_s)
        return Outcome(status, tuple(outputs), detail, run.cpu_ms)

    def _check_determinism(
        self, program: str, inputs: list[bytes], keys: list[bytes], cpu_s: float
    ) -> tuple[Status, str]:
        """Interpreter B calls everything twice. It cannot change a value, only refuse it."""
        run = self._child("B", program, inputs, passes=2, cpu_s=2 * cpu_s)
        if run.status == "timeout":
            return "timeout", f"{run.detail} in the determinism check"
        if run.status != "ok":
            return "nondeterministic", f"{run.status} in another interpreter: {run.detail}"
        for name, values in zip(("another interpreter", "a second call"), run.passes, strict=True):
            for index, (data, key) in enumerate(zip(values, keys, strict=True)):
                if data != key and _key(data) != key:
                    return "nondeterministic", f"output {index} differs in {name}"
        return "ok", ""

    def _child(self, which: str, program: str, inputs: list[bytes], passes: int, cpu_s: float) -> Run:
        # Encoded values are at most twice as long as their text ("0.0, " is nine bytes; only lists of
        # complex numbers are worse). This bounds what the child may send; the text itself is measured in
        # the parent.
        value_limit = 2 * self.limits.output_bytes + 64
        memory = self.limits.memory_mb << 20
        request = encode((program, inputs, passes, int(cpu_s * 1e6), memory, value_limit), 1 << 28)
        cap = 8_192 + passes * len(inputs) * (value_limit + 16)
        zygote = self.zygotes.get(which)
        if zygote is None:
            zygote = self.zygotes[which] = Zygote(HASH_SEEDS[which])
        reply = zygote.ask(request, self.limits.wall_s, cap)
        return judge_reply(reply, len(inputs), passes, cpu_s, bool(zygote.walls["seccomp"]))


def _key(data: bytes) -> bytes:
    """Canonical bytes of an encoded value; of forged bytes, something that equals no key."""
    try:
        return canonical(decode(data))
    except CodecError:
        return b""


def judge_reply(reply: Reply, inputs: int, passes: int, cpu_s: float, walled: bool) -> Run:
    """What a reply means: one whole frame, end of file and exit code 0, or the frame does not count.

    Behind the seccomp wall (`walled`) a program can neither wait nor send a signal. So a missed wall clock
    with little CPU used, or a SIGKILL out of nowhere, was the machine (starved, out of memory):
    `ZygoteError`.
    """

    def failed(status: Status, detail: str) -> Run:
        return Run(status, detail, [[] for _ in range(passes)], reply.cpu_ms)

    if reply.signal == signal.SIGKILL and reply.cpu_ms >= cpu_s * 900:
        return failed("timeout", f"more than {cpu_s:g} s of CPU")
    if reply.stop == WALL:
        if walled and reply.cpu_ms < reply.wall_ms / 2:
            raise ZygoteError(f"starved: {reply.cpu_ms:.0f} ms of CPU in {reply.wall_ms:.0f} ms")
        return failed("timeout", "wall clock")
    if reply.stop == FLOOD:
        return failed("oversize", "more output than the cap")
    if not reply.data.startswith(_LOCKED):
        raise ZygoteError("a child could not lock itself in")
    if reply.signal == signal.SIGKILL and walled:
        raise ZygoteError("a child was killed from outside")
    if reply.signal:
        return failed("error", f"killed by {_signal_name(reply.signal)}")
    if reply.code != 0 or reply.data == _LOCKED:
        return failed("error", "ended without a result")
    try:
        status, detail, runs = _read_frame(reply.data[len(_LOCKED) :], inputs, passes)
    except CodecError as error:
        return failed("error", f"not one well-formed result: {error}")
    return Run(status, detail, runs, reply.cpu_ms)


def _read_frame(data: bytes, inputs: int, passes: int) -> tuple[Status, str, list[list[bytes]]]:
    """Status, detail and encoded values of the one frame; `CodecError` for whatever else a child wrote."""
    if len(data) < _FRAME.size or len(data) != _FRAME.size + _FRAME.unpack_from(data)[0]:
        raise CodecError("the bytes are not exactly one frame")
    record = decode(data[_FRAME.size :])
    if type(record) is not tuple or len(cast("tuple[Any, ...]", record)) != 3:
        raise CodecError("not a result")
    status, detail, runs = cast("tuple[Any, Any, Any]", record)
    if type(status) is not str or status not in _FROM_CHILD or type(detail) is not str:
        raise CodecError("not a status that a child may claim")
    if type(runs) is not list or len(cast("list[Any]", runs)) != passes:
        raise CodecError("not the passes that were asked for")
    for run in cast("list[Any]", runs):
        if type(run) is not list or len(cast("list[Any]", run)) > inputs:
            raise CodecError("not a list of values")
        if status == "ok" and len(cast("list[Any]", run)) != inputs:
            raise CodecError("not a value for every input")
        for value in cast("list[Any]", run):
            if type(value) is not bytes:
                raise CodecError("not an encoded value")
    plain = "".join(letter if letter.isprintable() else "?" for letter in detail[:200])
    return status, plain, cast("list[list[bytes]]", runs)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
