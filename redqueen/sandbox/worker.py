"""One worker: from a job to its outcome, by way of two zygotes. All judging happens here, in the parent."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from redqueen.sandbox.child.protocol import LIMITS
from redqueen.sandbox.child.values import CodecError, OversizeError, canonical, decode, encode
from redqueen.sandbox.job import MAX_PROGRAM_BYTES, Job, Limits, Outcome, Status
from redqueen.sandbox.literals import parse_arguments, to_literal
from redqueen.sandbox.process import Zygote, ZygoteError
from redqueen.sandbox.profile import Profile
from redqueen.sandbox.transcript import Run, Transcript, judge_reply

HASH_SEEDS = {"A": 1, "B": 2}
"""Interpreter A gives the values; B, where hashes and addresses differ, only checks them."""

_MOST_REQUEST_BYTES = 1 << 28


class Reading:
    """Turns encoded values into literal text, in order, up to the first that decides.

    A value decides if it is not the expected one, if it is forged, or if its text is too long.
    """

    def __init__(self, expected: tuple[bytes, ...] | None, most_bytes: int) -> None:
        self.texts: list[str] = []
        self.verdict: tuple[Status, str] | None = None
        self._expected = expected
        self._most_bytes = most_bytes

    def see(self, values: list[bytes]) -> bool:
        """Reads those of `values` that are new. Returns whether the verdict stands."""
        while self.verdict is None and len(self.texts) < len(values):
            self.verdict = self._read(values[len(self.texts)])
        return self.verdict is not None

    def _read(self, data: bytes) -> tuple[Status, str] | None:
        try:
            value = decode(data)
            text = to_literal(value)
            missed = self._expected is not None and self._differs(data, value, self._expected[len(self.texts)])
        except CodecError as error:
            # Our own encoder never writes such bytes: the program did.
            return "error", f"a forged value: {error}"
        if len(text.encode()) > self._most_bytes:
            return "oversize", f"output {len(self.texts)} is more than {self._most_bytes} bytes"
        self.texts.append(text)
        return ("wrong", f"output {len(self.texts) - 1} differs") if missed else None

    @staticmethod
    def _differs(data: bytes, value: object, expected: bytes) -> bool:
        # The expected bytes themselves need no second look; others may be the same value in another order.
        return data != expected and canonical(value) != expected


class Worker:
    """Two zygotes, started when first needed and replaced when they die. It does one job at a time."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.zygotes: dict[str, Zygote] = {}

    def run(self, job: Job) -> Outcome:
        """The outcome of one job, by this worker alone."""
        return run_job(job, self.profile.limits, nullcontext(self))

    def runs(self, job: Job, work: bytes) -> list[Run]:
        """What interpreter A made of a job and then, if it is to be validated and went well so far, interpreter B.

        If a zygote dies the job is tried once more. Raises ZygoteError if that fails too.
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
        """Ends both zygotes."""
        while self.zygotes:
            self.zygotes.popitem()[1].close()

    def _runs(self, job: Job, work: bytes) -> list[Run]:
        cpu_s = self.profile.limits.cpu_s
        # Validation has half the time of grading, so that an accepted task does not time out when it is graded. The
        # child must not know: with the same limits and the same bytes a program cannot behave otherwise.
        run = self._child("A", job, work, passes=1, cpu_s=cpu_s, allowed_s=cpu_s / 2 if job.validate else cpu_s)
        if not job.validate or run.status != "ok":
            return [run]
        return [run, self._child("B", job, work, passes=2, cpu_s=cpu_s, allowed_s=cpu_s)]

    def _child(self, which: str, job: Job, work: bytes, *, passes: int, cpu_s: float, allowed_s: float) -> Run:
        """Runs one child, which knows of `cpu_s`, and ends it after `allowed_s` seconds of CPU if that is less.

        At the first miss it is ended, and only what it wrote before that counts.
        """
        limits = self.profile.limits
        # Encoded values are at most twice as long as their text ("0.0, " is nine bytes; only lists of complex numbers
        # are worse). This bounds what the child may send; the text itself is measured in the parent.
        value_limit = 2 * limits.output_bytes + 64
        head = LIMITS.pack(int(cpu_s * 1e6), limits.memory_mb << 20, passes, value_limit)
        said = Transcript(passes * len(job.inputs), value_limit)
        reading = None if job.expected is None else Reading(job.expected, limits.output_bytes)

        def hear(data: bytes, ended: bool) -> bool:
            said.feed(data)
            return reading is not None and not ended and reading.see(said.values)

        zygote = self._zygote(which)
        reply = zygote.ask(head + work, limits.wall_s, said.cap, hear, watch_s=0.0 if allowed_s == cpu_s else allowed_s)
        # A verdict that stands outweighs how the child ended: a miss cannot be undone by a crash or a loop after it.
        if reading is not None and not (reply.code == 0 and said.whole) and reading.see(said.values):
            return Run(status="ok", detail="", values=said.values, cpu_ms=reply.cpu_ms)
        return judge_reply(reply, said, allowed_s, bool(zygote.isolation["seccomp"]))

    def _zygote(self, which: str) -> Zygote:
        if which not in self.zygotes:
            self.zygotes[which] = Zygote(self.profile, HASH_SEEDS[which])
        return self.zygotes[which]


def run_job(job: Job, limits: Limits, free: AbstractContextManager[Worker]) -> Outcome:
    """The outcome of one job. `free` gives a worker, which is held only while children run."""
    try:
        work = encode((job.program, _encoded(job, limits)), _MOST_REQUEST_BYTES)
    except OversizeError as error:
        return Outcome(status="oversize", detail=str(error))
    except CodecError as error:
        return Outcome(status="malformed", detail=str(error))
    try:
        with free as worker:
            runs = worker.runs(job, work)
    except ZygoteError as error:
        return Outcome(status="infra_error", detail=str(error))
    return _judge(Reading(job.expected, limits.output_bytes), *runs)


def _encoded(job: Job, limits: Limits) -> list[bytes]:
    """The inputs as a child reads them. Raises CodecError if one is no literal, OversizeError if a text is too long."""
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
    return Outcome(status=status, outputs=tuple(reading.texts), detail=detail, cpu_ms=run.cpu_ms)


def _compare(values: list[bytes], run: Run) -> tuple[Status, str]:
    """Compares with interpreter B, which called everything twice. B cannot change a value, only refuse it."""
    if run.status == "timeout":
        return "timeout", f"{run.detail} in the determinism check"
    if run.status != "ok":
        return "nondeterministic", f"{run.status} in another interpreter: {run.detail}"
    first_pass = run.values[: len(values)]
    # The second pass goes backwards.
    second_pass = run.values[: len(values) - 1 : -1]
    for name, others in (("another interpreter", first_pass), ("a second call", second_pass)):
        for index, (value, other) in enumerate(zip(values, others, strict=True)):
            # Bytes that differ may still be one value: a dict's keys in another order, or a zero with another sign.
            if value != other and _key(value) != _key(other):
                return "nondeterministic", f"output {index} differs in {name}"
    return "ok", ""


def _key(data: bytes) -> bytes:
    """Canonical bytes of an encoded value; of forged bytes, something that equals no key."""
    try:
        return canonical(decode(data))
    except CodecError:
        return b""
