"""What one child wrote, read strictly and in order, and what it means together with how the child ended.

The child writes `L` once it is locked in, a frame without content if its program may depend on chance, one frame for
each value as soon as it is computed, and one frame for the end. A frame is a letter, a length and that many bytes. If
it writes anything else, its program did that, and it counts as an error.
"""

from __future__ import annotations

import signal
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
from redqueen.jail.child.values import CodecError, decode
from redqueen.jail.job import Status
from redqueen.jail.running import Reply, Stop, ZygoteError


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
        self._rest = b""

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
        data = self._rest + data
        at = 0
        if not self.locked and data:
            self.locked = data.startswith(LOCKED)
            at = 1
            if not self.locked:
                self.fault = "not locked in"
        while not self.fault and at + FRAME.size <= len(data):
            kind, size = FRAME.unpack_from(data, at)
            self.fault = self._objection(kind, size)
            end = at + FRAME.size + size
            if self.fault or end > len(data):
                break
            self._take(kind, data[at + FRAME.size : end])
            at = end
        self._rest = data[at:]

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

    Behind the seccomp filter (`walled`) a program can neither wait nor send a signal. So if it meets the wall clock
    with little CPU used, or is killed by an unexpected SIGKILL, the machine did that (starved, out of memory): raises
    ZygoteError.
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
