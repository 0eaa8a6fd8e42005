"""What one child wrote, read strictly and in order, and what it means together with how the child ended.

The child writes `L` once it is locked in, a frame without content if its program may depend on chance, one frame for
each value as soon as it is computed, and one frame for the end. A frame is a letter, a length and that many bytes. If
it writes anything else, its program did that, and it counts as an error.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from redqueen.jail.child.protocol import (
    END,
    FRAME,
    FROM_CHILD,
    LOCKED,
    MOST_END_BYTES,
    UNSTEADY,
    VALUE,
)
from redqueen.jail.child.values import CodecError, canonical, decode
from redqueen.jail.job import Status
from redqueen.jail.literals import to_literal
from redqueen.jail.running import Reply, Stop, ZygoteError


class Reading:
    """Turns encoded values into literal text, in order, up to the first that decides.

    A value decides if it is not the expected one, if it is forged, or if its text is too long.
    """

    def __init__(
        self,
        expected: tuple[bytes, ...] | None,
        most_bytes: int,
        accepts: Callable[[int, str], bool] | None = None,
    ) -> None:
        self.texts: list[str] = []
        self.verdict: tuple[Status, str] | None = None
        self._expected = expected
        self._accepts = accepts
        self._most_bytes = most_bytes

    def see(self, values: list[bytes]) -> bool:
        """Reads those of `values` that are new. Returns whether the verdict stands."""
        while self.verdict is None and len(self.texts) < len(values):
            self.verdict = self._read(values[len(self.texts)])
        return self.verdict is not None

    def _read(self, data: bytes) -> tuple[Status, str] | None:
        number = len(self.texts)
        try:
            value = decode(data)
            text = to_literal(value)
            if len(text.encode()) > self._most_bytes:
                return "oversize", f"output {number} is more than {self._most_bytes} bytes"
            missed = self._expected is not None and self._differs(data, value, self._expected[number])
            missed = missed or (self._accepts is not None and not self._accepts(number, text))
        except CodecError as error:
            # Our own encoder never writes such bytes: the program did.
            return "error", f"a forged value: {error}"
        self.texts.append(text)
        return ("wrong", f"output {number} differs") if missed else None

    @staticmethod
    def _differs(data: bytes, value: object, expected: bytes) -> bool:
        # The expected bytes themselves need no second look; others may be the same value in another order.
        return data != expected and canonical(value, len(data)) != expected


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRun:
    """What one child did."""

    status: Status
    detail: str
    """One line for people."""
    values: list[bytes]
    """Encoded values, not yet decoded, in the order in which they were computed."""
    cpu_ms: float
    unsteady: bool = False
    """Whether the program's code can show hashes, addresses or other chance."""
    reading: Reading | None = None
    """What was read of the values while the child ran."""


class Transcript:
    """Reads the bytes of one child as they arrive. After the first byte out of place nothing more is read."""

    def __init__(self, most_values: int, value_bytes: int) -> None:
        self.values: list[bytes] = []
        """The encoded values so far."""
        self.locked = False
        """Whether the child has given up its rights and begun with the program."""
        self.unsteady = False
        """Whether the child found that the program may depend on chance."""
        self.fault = ""
        """Why the bytes are no transcript; empty as long as they may become one."""
        self._most_values = most_values
        self._value_bytes = value_bytes
        self._end: tuple[Status, str] | None = None
        self._rest = bytearray()

    @property
    def cap(self) -> int:
        """The most bytes that an honest child can write."""
        return 1 + FRAME.size + self._most_values * (FRAME.size + self._value_bytes) + FRAME.size + MOST_END_BYTES

    @property
    def whole(self) -> bool:
        """Whether the child wrote everything that it had to, and no more."""
        return not (self.fault or self._rest) and self._end is not None

    @property
    def silent(self) -> bool:
        """Whether the child got as far as its program and wrote nothing after that."""
        return self.locked and not (self.fault or self.values or self._end or self._rest)

    def feed(self, data: bytes) -> None:
        """Reads more of the child's bytes; a part of a frame waits for the rest."""
        if self.fault:
            return
        rest = self._rest
        rest += data
        at = 0
        if not self.locked and rest:
            self.locked = rest.startswith(LOCKED)
            at = 1
            if not self.locked:
                self.fault = "not locked in"
        while not self.fault and at + FRAME.size <= len(rest):
            kind, size = FRAME.unpack_from(rest, at)
            self.fault = self._objection(kind, size)
            end = at + FRAME.size + size
            if self.fault or end > len(rest):
                break
            self._take(kind, bytes(rest[at + FRAME.size : end]))
            at = end
        del rest[:at]

    def result(self) -> tuple[Status, str]:
        """Status and detail of a child that has ended. Raises CodecError if this is not one whole transcript."""
        if self.fault:
            raise CodecError(self.fault)
        if self._end is None or self._rest:
            raise CodecError("bytes after the end" if self._end else "it stops in the middle")
        if self._end[0] == "ok" and len(self.values) != self._most_values:
            raise CodecError("not a value for every input")
        return self._end

    def _objection(self, kind: bytes, size: int) -> str:
        """What is wrong with a frame's head; empty if nothing is."""
        if self._end is not None:
            return "bytes after the end"
        if kind == UNSTEADY:
            return "chance in the wrong place" if size or self.unsteady or self.values else ""
        if kind == VALUE:
            if len(self.values) == self._most_values:
                return "more values than inputs"
            return "a value above the limit" if size > self._value_bytes else ""
        if kind == END:
            return "an end above the limit" if size > MOST_END_BYTES else ""
        return "not a frame"

    def _take(self, kind: bytes, data: bytes) -> None:
        if kind == VALUE:
            self.values.append(data)
            return
        if kind == UNSTEADY:
            self.unsteady = True
            return
        try:
            self._end = _read_end(data)
        except CodecError as error:
            self.fault = str(error)


def _read_end(data: bytes) -> tuple[Status, str]:
    record = decode(data)
    if type(record) is not tuple or len(cast("tuple[Any, ...]", record)) != 2:
        raise CodecError("not a result")
    # The detail is shown in a terminal, and a program may have chosen its bytes.
    status, detail = cast("tuple[Any, Any]", record)
    if type(status) is not str or status not in FROM_CHILD or type(detail) is not str:
        raise CodecError("not a status that a child may claim")
    return status, "".join(letter if letter.isprintable() else "?" for letter in detail[:200])


def judge_reply(reply: Reply, said: Transcript, cpu_s: float, walled: bool) -> ChildRun:
    """What a child's end means: one whole transcript, end of file and exit code 0, or nothing of it counts.

    Behind the seccomp filter (`walled`) a program cannot send a signal, and can wait for nothing but this process to
    read, while the wall clock stands. So if it meets the wall clock with little CPU used, or is killed by an unexpected
    SIGKILL, the machine did that (starved, out of memory): raises ZygoteError.
    """

    def failed(status: Status, detail: str) -> ChildRun:
        return ChildRun(status=status, detail=detail, values=[], cpu_ms=reply.cpu_ms)

    # The timer that kills may have another limit than `cpu_s`. The CPU time that the system reports may be a little
    # less than the timer's: nine tenths of the limit will do.
    killed = reply.signal == signal.SIGKILL and reply.cpu_ms >= cpu_s * 900
    if reply.stop is Stop.CPU or killed or reply.cpu_ms > cpu_s * 1000:
        return failed("timeout", f"more than {cpu_s:g} s of CPU")
    if reply.stop is Stop.WALL:
        if walled and reply.cpu_ms < reply.wall_ms / 2:
            raise ZygoteError(f"starved: {reply.cpu_ms:.0f} ms of CPU in {reply.wall_ms:.0f} ms")
        return failed("timeout", "wall clock")
    if reply.stop is Stop.FLOOD:
        return failed("oversize", "more output than the cap")
    if not said.locked:
        raise ZygoteError("a child could not lock itself in")
    if reply.signal == signal.SIGKILL and walled:
        raise ZygoteError("a child was killed from outside")
    if reply.signal:
        return failed("error", f"killed by {_signal_name(reply.signal)}")
    if reply.code != 0 or said.silent:
        return failed("error", "ended without a result")
    return _as_said(reply, said)


def _as_said(reply: Reply, said: Transcript) -> ChildRun:
    try:
        status, detail = said.result()
    except CodecError as error:
        detail = f"not one well-formed result: {error}"
        return ChildRun(status="error", detail=detail, values=[], cpu_ms=reply.cpu_ms)
    return ChildRun(
        status=status,
        detail=detail,
        values=said.values,
        cpu_ms=reply.cpu_ms,
        unsteady=said.unsteady,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
