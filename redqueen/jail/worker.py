"""One worker: from a job to its outcome, by way of two to seven zygotes. All judging happens here, in the parent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from redqueen.jail.child.values import CodecError, OversizeError, canonical, decode, encode, marshalled, pack
from redqueen.jail.job import MAX_LIMIT, MAX_PROGRAM_BYTES, Job, Limits, Outcome, Status
from redqueen.jail.literals import parse_arguments
from redqueen.jail.process import VARIANTS, Interpreters, Zygote
from redqueen.jail.running import Child, ChildRequest, NoChildError, ZygoteError
from redqueen.jail.transcript import ChildRun, Reading, Transcript, judge_reply

_PASSES = 3
_CALLS = 9
"""B calls a program three times on each input, and nine times in all if that is quick: programs may count calls."""
_QUICK = 0.05
"""The share of the CPU limit that a quick program needs."""
_CHECK_LIMIT = 1.5
"""The limits of a check as multiples of an attempt's: a validated program needs half of that for one pass."""
_PATIENT = 2
"""The limits of a patient job as multiples of an attempt's. Every child of A is told this CPU limit."""
_RETRY_WALL = 4
"""The wall clock of a job's second try as a multiple of the first one's: the machine may be busy."""
_MORE_MEMORY_MB = 8
"""Each interpreter has so much more memory than the one before, so that a result cannot depend on its limit."""

_MOST_REQUEST_BYTES = 1 << 28


def _passes(inputs: int, *, quick: bool) -> int:
    """How often interpreter B goes over the inputs."""
    return max(_PASSES, -(-_CALLS // max(1, inputs))) if quick else _PASSES


@dataclass(frozen=True, slots=True)
class _Request:
    """One child to come."""

    which: str
    asked: ChildRequest
    transcript: Transcript
    """Reads what the child will write."""
    allowed_s: float
    """Seconds of CPU after which it is ended."""


class Worker:
    """Does one job at a time: it has one child at most."""

    def __init__(self, interpreters: Interpreters) -> None:
        self.interpreters = interpreters
        self._begun: tuple[Zygote, Child] | None = None

    def run(self, job: Job) -> Outcome:
        """The outcome of one job, by this worker alone."""
        return run_job(job, self.interpreters.profile.limits, lambda _job, _work: nullcontext(self))

    def begin(self, job: Job, work: bytes) -> None:
        """Starts the first child of a job. `runs` must follow, perhaps in another thread.

        The thread that hands a worker over does this, so that the worker does not wait until the other one wakes.
        """
        # An interpreter that is not there yet takes long to start, and one that has failed is the other thread's to
        # report.
        zygote = self.interpreters.zygotes.get("A")
        if zygote is not None:
            # The other thread meets and reports whatever goes wrong here. This one has a job of its own to finish.
            with contextlib.suppress(Exception):
                self._begun = zygote, zygote.order(self._reference(job, work).asked)

    def runs(self, job: Job, work: bytes) -> list[ChildRun]:
        """What interpreter A made of a job and then, if it is to be validated, the others, up to the first objection.

        If a child dies or gets no CPU time the job is tried once more, and also if a zygote gives no child. Raises
        ZygoteError if the same happens again.
        """
        # What kills a child may end its zygote a moment later, so that a job meets both.
        failures: set[bool] = set()
        limits = self._limits(job)
        longer = replace(job, limits=replace(limits, wall_s=min(_RETRY_WALL * limits.wall_s, MAX_LIMIT)))
        while True:
            try:
                return self._runs(job, work)
            except (ZygoteError, OSError) as error:
                self.close()
                no_child = isinstance(error, NoChildError)
                if no_child in failures:
                    raise ZygoteError(str(error)) from error
                failures.add(no_child)
                job = longer

    def close(self) -> None:
        """Ends the child that has begun, if there is one."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun[1].abandon()

    def _runs(self, job: Job, work: bytes) -> list[ChildRun]:
        cpu_s = self._limits(job).cpu_s
        run = self._child(job, self._reference(job, work))
        if not job.validate or run.status != "ok":
            return [run]
        runs = [run]
        for which in list(VARIANTS)[1:]:
            quick = run.cpu_ms <= _QUICK * cpu_s * 1000
            passes = _passes(len(job.inputs), quick=quick) if which == "B" else 1
            longer_s = _CHECK_LIMIT * cpu_s
            runs.append(self._child(job, self._request(which, job, work, passes, longer_s, longer_s)))
            # B has looked at the code.
            if not runs[1].unsteady or _compare(run.values, runs[-1])[0] != "ok":
                break
        return runs

    def _reference(self, job: Job, work: bytes) -> _Request:
        """The request to interpreter A."""
        cpu_s = self._limits(job).cpu_s
        most_s = _PATIENT * cpu_s
        # Validation has half the time of grading, so that an accepted task does not time out when it is graded, and a
        # second judgement has twice as much. The child must not know which of them it is: with the same limits and the
        # same bytes a program cannot behave otherwise.
        if job.validate:
            return self._request("A", job, work, 1, most_s, cpu_s / 2)
        return self._request("A", job, work, 1, most_s, most_s if job.patient else cpu_s)

    def _request(self, which: str, job: Job, work: bytes, passes: int, cpu_s: float, allowed_s: float) -> _Request:
        """A request for a child that knows of `cpu_s` and is ended after `allowed_s` seconds of CPU if that is less."""
        limits = self._limits(job)
        # Encoded values are at most twice as long as their text ("0.0, " is nine bytes; only lists of complex numbers
        # are worse). This bounds what the child may send; the text itself is measured in the parent.
        value_limit = 2 * limits.output_bytes + 64
        memory_mb = limits.memory_mb + _MORE_MEMORY_MB * VARIANTS[which]
        transcript = Transcript(passes * len(job.inputs), value_limit)
        asked = ChildRequest(
            limits=(int(cpu_s * 1e6), memory_mb << 20, passes, value_limit),
            processors=self.interpreters.processors(job.program if job.one_processor else None),
            work=work,
            wall_s=self._wall_s(which, job),
            cap=transcript.cap,
            watch_s=0.0 if allowed_s == cpu_s else allowed_s,
        )
        return _Request(which, asked, transcript, allowed_s)

    def _child(self, job: Job, request: _Request) -> ChildRun:
        """Runs one child. At the first miss it is ended, and only what it wrote before that counts."""
        transcript = request.transcript
        reading = (
            None
            if job.expected is None and job.accepts is None
            else Reading(job.expected, self._limits(job).output_bytes, job.accepts)
        )

        def hear(data: bytes, ended: bool) -> bool:
            transcript.feed(data)
            return reading is not None and not ended and reading.see(transcript.values)

        zygote, child = self._begun or self._order(request)
        self._begun = None
        try:
            reply = child.wait(hear)
        except NoChildError:
            zygote.failed = True
            raise
        # A verdict that stands outweighs how the child ended: a miss cannot be undone by a crash or a loop after it.
        if reading is not None and not (reply.code == 0 and transcript.whole) and reading.see(transcript.values):
            return ChildRun(status="ok", detail="", values=transcript.values, cpu_ms=reply.cpu_ms, reading=reading)
        run = judge_reply(reply, transcript, request.allowed_s, bool(zygote.isolation["seccomp"]))
        return replace(run, reading=reading) if run.values else run

    def _order(self, request: _Request) -> tuple[Zygote, Child]:
        zygote = self.interpreters.get(request.which)
        return zygote, zygote.order(request.asked)

    def _wall_s(self, which: str, job: Job) -> float:
        wall_s = self._limits(job).wall_s
        if which != "A":
            return _CHECK_LIMIT * wall_s
        return _PATIENT * wall_s if job.patient else wall_s

    def _limits(self, job: Job) -> Limits:
        return job.limits or self.interpreters.profile.limits


def run_job(job: Job, limits: Limits, free: Callable[[Job, bytes], AbstractContextManager[Worker]]) -> Outcome:
    """The outcome of one job under its own limits or these. `free` gives a worker, held only while children run.

    It gets what the worker is needed for, which may begin before it returns.
    """
    limits = job.limits or limits
    try:
        work = marshalled((job.program, _packed(job, limits)))
        if len(work) > _MOST_REQUEST_BYTES:
            raise OversizeError("the inputs are too large")
    except OversizeError as error:
        return Outcome(status="oversize", detail=str(error))
    except CodecError as error:
        return Outcome(status="malformed", detail=str(error))
    try:
        with free(job, work) as worker:
            runs = worker.runs(job, work)
    except ZygoteError as error:
        return Outcome(status="infra_error", detail=str(error))
    # Of the checks only the last one can object: the others agreed, or it would not have begun.
    reading = runs[0].reading or Reading(job.expected, limits.output_bytes, job.accepts)
    return _judge(reading, runs[0], runs[-1] if job.validate else None)


def _packed(job: Job, limits: Limits) -> list[bytes]:
    """The inputs as a child reads them. Raises CodecError if one is no literal, OversizeError if a text is too long."""
    if len(job.program.encode("utf-8", "surrogatepass")) > MAX_PROGRAM_BYTES:
        raise OversizeError(f"a program of more than {MAX_PROGRAM_BYTES} bytes")
    packed: list[bytes] = []
    for index, text in enumerate(job.inputs):
        if isinstance(text, bytes):
            packed.append(text)
            continue
        try:
            packed.append(pack(parse_arguments(text, limits.input_bytes)))
        except CodecError as error:
            raise type(error)(f"input {index}: {error}") from None
    return packed


def encode_arguments(arguments: Sequence[object]) -> bytes:
    """The bytes of arguments as `Job.inputs` takes them.

    Raises UnsupportedError if one is no plain builtin value, OversizeError if they are too large.
    """
    return encode(tuple(arguments), _MOST_REQUEST_BYTES)


def _judge(reading: Reading, run: ChildRun, check: ChildRun | None) -> Outcome:
    reading.see(run.values)
    status, detail = reading.verdict or (run.status, run.detail)
    if check is not None and status == "ok":
        status, detail = _compare(run.values, check)
    return Outcome(status=status, outputs=tuple(reading.texts), detail=detail, cpu_ms=run.cpu_ms)


def _compare(values: list[bytes], run: ChildRun) -> tuple[Status, str]:
    """Compares with a check, which may have gone over the inputs several times. It cannot change a value."""
    if run.status == "timeout":
        return "timeout", f"{run.detail} in the determinism check"
    if run.status != "ok":
        return "nondeterministic", f"{run.status} in another interpreter: {run.detail}"
    for start in range(0, len(run.values), max(1, len(values))):
        others = run.values[start : start + len(values)]
        # Every second pass goes backwards.
        odd = start // len(values) % 2 == 1
        for index, (value, other) in enumerate(zip(values, reversed(others) if odd else others, strict=True)):
            # Bytes that differ may still be one value: a dict's keys in another order, or a zero with another sign.
            if value != other and not _same(value, other):
                return (
                    "nondeterministic",
                    f"output {index} differs in {'a later call' if start else 'another interpreter'}",
                )
    return "ok", ""


def _same(one: bytes, other: bytes) -> bool:
    """Returns whether two encodings are of one value; forged bytes are of none."""
    limit = 2 * max(len(one), len(other))
    try:
        return canonical(decode(one), limit) == canonical(decode(other), limit)
    except CodecError:
        return False
