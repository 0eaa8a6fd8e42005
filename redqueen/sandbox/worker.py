"""One worker: from a job to its outcome, by way of two zygotes. All judging happens here, in the parent."""

from __future__ import annotations

import struct
from contextlib import AbstractContextManager, nullcontext

from redqueen.sandbox.job import MAX_PROGRAM_BYTES, Job, Limits, Outcome, Status
from redqueen.sandbox.literals import parse_arguments, to_literal
from redqueen.sandbox.process import Zygote, ZygoteError
from redqueen.sandbox.transcript import Run, Transcript, judge_reply
from redqueen.sandbox.values import CodecError, OversizeError, canonical, decode, encode

HASH_SEEDS = {"A": 1, "B": 2}

_LIMITS = struct.Struct("!QQII")  # CPU microseconds, bytes of memory, passes, most bytes of a value


class Reading:
    """Encoded values into literal text, in order, up to the first that decides: a miss, a forged or a too long one."""

    def __init__(self, expected: tuple[bytes, ...] | None, most_bytes: int) -> None:
        self.texts: list[str] = []
        self.verdict: tuple[Status, str] | None = None
        self._expected, self._most_bytes = expected, most_bytes

    def see(self, values: list[bytes]) -> bool:
        """Reads those of `values` that are new; whether the verdict stands."""
        while self.verdict is None and len(self.texts) < len(values):
            self.verdict = self._read(values[len(self.texts)])
        return self.verdict is not None

    def _read(self, data: bytes) -> tuple[Status, str] | None:
        try:
            value = decode(data)
            text = to_literal(value)
            expected = None if self._expected is None else self._expected[len(self.texts)]
            # the expected bytes themselves need no second look; others may be the same value in another order
            missed = expected is not None and data != expected and canonical(value) != expected
        except CodecError as error:  # our own encoder never writes such bytes: the program did
            return "error", f"a forged value: {error}"
        if len(text.encode()) > self._most_bytes:
            return "oversize", f"output {len(self.texts)} is more than {self._most_bytes} bytes"
        self.texts.append(text)
        return ("wrong", f"output {len(self.texts) - 1} differs") if missed else None


class Worker:
    """Two zygotes, started when first needed and replaced when they die; for one job at a time."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.zygotes: dict[str, Zygote] = {}

    def run(self, job: Job) -> Outcome:
        """The outcome of one job, by this worker alone."""
        return run_job(job, self.limits, nullcontext(self))

    def runs(self, job: Job, work: bytes) -> list[Run]:
        """What interpreter A made of a job and then, if it is to be validated and went well so far, interpreter B.

        If a zygote dies the job is tried once more, then `ZygoteError` is raised.
        """
        for last in (False, True):
            try:
                return self._runs(job, work)
            except (ZygoteError, OSError) as error:
                self.close()
                if last:
                    raise ZygoteError(str(error)) from error
        raise AssertionError

    def close(self) -> None:
        """End both zygotes."""
        while self.zygotes:
            self.zygotes.popitem()[1].close()

    def _runs(self, job: Job, work: bytes) -> list[Run]:
        run = self._child("A", job, work, 1, self.limits.cpu_s / 2 if job.validate else self.limits.cpu_s)
        if not job.validate or run.status != "ok":
            return [run]
        return [run, self._child("B", job, work, 2, self.limits.cpu_s)]

    def _child(self, which: str, job: Job, work: bytes, passes: int, cpu_s: float) -> Run:
        """One child. At the first miss it is ended, and what it said until then is what counts."""
        # Encoded values are at most twice as long as their text ("0.0, " is nine bytes; only lists of
        # complex numbers are worse). This bounds what the child may send; the text itself is measured in
        # the parent.
        value_limit = 2 * self.limits.output_bytes + 64
        limits = _LIMITS.pack(int(cpu_s * 1e6), self.limits.memory_mb << 20, passes, value_limit)
        said = Transcript(passes * len(job.inputs), value_limit)

        reading = None if job.expected is None else Reading(job.expected, self.limits.output_bytes)

        def hear(data: bytes, ended: bool) -> bool:
            said.feed(data)
            return reading is not None and not ended and reading.see(said.values)

        zygote = self.zygotes.get(which)
        if zygote is None:
            zygote = self.zygotes[which] = Zygote(HASH_SEEDS[which])
        reply = zygote.ask(limits + work, self.limits.wall_s, said.cap, hear)
        if reading is not None and not (reply.code == 0 and said.whole) and reading.see(said.values):
            return Run("ok", "", said.values, reply.cpu_ms)
        return judge_reply(reply, said, cpu_s, bool(zygote.walls["seccomp"]))


def run_job(job: Job, limits: Limits, free: AbstractContextManager[Worker]) -> Outcome:
    """The outcome of one job. `free` gives a worker, which is held no longer than children run."""
    try:
        work = encode((job.program, _encoded(job, limits)), 1 << 28)
    except OversizeError as error:
        return Outcome("oversize", (), str(error), 0.0)
    except CodecError as error:
        return Outcome("malformed", (), str(error), 0.0)
    try:
        with free as worker:
            runs = worker.runs(job, work)
    except ZygoteError as error:
        return Outcome("infra_error", (), str(error), 0.0)
    return _judge(Reading(job.expected, limits.output_bytes), *runs)


def _encoded(job: Job, limits: Limits) -> list[bytes]:
    if len(job.program.encode("utf-8", "surrogatepass")) > MAX_PROGRAM_BYTES:
        raise OversizeError(f"a program of more than {MAX_PROGRAM_BYTES} bytes")
    encoded: list[bytes] = []
    for index, text in enumerate(job.inputs):
        try:
            encoded.append(encode(parse_arguments(text, limits.input_bytes)))
        except CodecError as error:
            raise type(error)(f"input {index}: {error}") from None
    return encoded


def _judge(reading: Reading, run: Run, other: Run | None = None) -> Outcome:
    reading.see(run.values)
    status, detail = reading.verdict or (run.status, run.detail)
    if other is not None and reading.verdict is None:
        status, detail = _compare(run.values, other)
    return Outcome(status, tuple(reading.texts), detail, run.cpu_ms)


def _compare(values: list[bytes], run: Run) -> tuple[Status, str]:
    """Interpreter B called everything twice. It cannot change a value, only refuse it."""
    if run.status == "timeout":
        return "timeout", f"{run.detail} in the determinism check"
    if run.status != "ok":
        return "nondeterministic", f"{run.status} in another interpreter: {run.detail}"
    once, again = run.values[: len(values)], run.values[: len(values) - 1 : -1]  # the second pass goes backwards
    for name, others in (("another interpreter", once), ("a second call", again)):
        for index, (value, other) in enumerate(zip(values, others, strict=True)):
            if value != other and _key(value) != _key(other):
                return "nondeterministic", f"output {index} differs in {name}"
    return "ok", ""


def _key(data: bytes) -> bytes:
    """Canonical bytes of an encoded value; of forged bytes, something that equals no key."""
    try:
        return canonical(decode(data))
    except CodecError:
        return b""
