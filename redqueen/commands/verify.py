"""`redqueen verify`: proposals and attempts from a JSONL file, one verdict line for each line, in their order."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import BinaryIO

from redqueen.commands.verify_input import BadLineError, Entry, read_entry
from redqueen.config import SandboxConfig
from redqueen.errors import UserError
from redqueen.records import Verdict
from redqueen.sandbox import Outcome
from redqueen.verifier import LocalVerifier

MAX_LINE_BYTES = 4 << 20
_IN_FLIGHT_BYTES = 32 << 20
_LINE_OVERHEAD = 2_048  # what a short line costs beside its text


@dataclass(frozen=True, slots=True)
class _Asked:
    """A line that has been read: its verdict, or the job that will tell."""

    id: str | int | None
    cost: int
    answer: Verdict | Future[Outcome]
    settle: Callable[[Outcome], Verdict] | None = None

    def verdict(self) -> Verdict:
        """Waits for the job."""
        if isinstance(self.answer, Verdict):
            return self.answer
        assert self.settle is not None
        return self.settle(self.answer.result())


class _Window:
    """Back-pressure: reading stops while the lines between reading and writing hold too many bytes.

    It is wide, so that one program that takes its whole time limit does not leave the other workers idle.
    """

    def __init__(self, budget: int) -> None:
        self._budget, self._used = budget, 0
        self._change = threading.Condition()

    def enter(self, cost: int) -> None:
        with self._change:
            self._change.wait_for(lambda: self._used == 0 or self._used + cost <= self._budget)
            self._used += cost

    def leave(self, cost: int) -> None:
        with self._change:
            self._used -= cost
            self._change.notify()


def run_verify(source: str, jobs: int | None, *, unsafe: bool = False) -> int:
    """Returns the exit code: 0 unless a line got `infra_error`, that is no verdict. Raises UserError for a bad file."""
    config = SandboxConfig(workers=jobs or 0, unsafe_no_isolation=unsafe)
    try:
        file = _open(source)  # never closed: that would wait for the thread that may be waiting in it
        with LocalVerifier(config) as verifier:
            progress = _Progress(verifier.tier)
            _copy(file, verifier, progress)
            sys.stdout.flush()
    except BrokenPipeError:
        # whoever read our output has left: nothing to say, and nothing to flush when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return progress.finish()


def _open(source: str) -> BinaryIO:
    """The file; standard input as an object of our own, because Python locks its own when it ends."""
    try:
        return open(0 if source == "-" else source, "rb", closefd=source != "-")
    except OSError as error:
        raise UserError(f"cannot read {source}: {error.strerror}") from None


def _copy(file: BinaryIO, verifier: LocalVerifier, progress: _Progress) -> None:
    """Reads in a thread and writes in this one, so that a verdict does not wait for the next line to arrive."""
    window = _Window(_IN_FLIGHT_BYTES)
    asked: SimpleQueue[_Asked | Exception | None] = SimpleQueue()

    def read() -> None:
        try:
            for number, raw in enumerate(_lines(file), 1):
                window.enter(len(raw) + _LINE_OVERHEAD)
                asked.put(_ask(number, raw, verifier))
            asked.put(None)
        except Exception as error:  # noqa: BLE001 - it is raised again where somebody sees it
            asked.put(error)

    threading.Thread(target=read, daemon=True, name="reader").start()
    while (item := asked.get()) is not None:
        if isinstance(item, Exception):
            raise item
        verdict = item.verdict()
        line = {
            "id": item.id,
            "status": verdict.status,
            "output": verdict.output,
            "detail": verdict.detail,
            "cpu_ms": round(verdict.cpu_ms, 3),
        }
        sys.stdout.write(json.dumps(line) + "\n")
        window.leave(item.cost)
        if asked.empty():
            sys.stdout.flush()
        progress.count(verdict.status)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines without their ends; one that is too long comes as its first bytes, a little more than allowed."""
    while line := file.readline(MAX_LINE_BYTES + 2):
        if not line.endswith(b"\n"):
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(1 << 20)
        yield line.rstrip(b"\r\n")


def _ask(number: int, raw: bytes, verifier: LocalVerifier) -> _Asked:
    cost = len(raw) + _LINE_OVERHEAD
    try:
        if len(raw) > MAX_LINE_BYTES:
            raise BadLineError(None, f"more than {MAX_LINE_BYTES} bytes")
        entry: Entry = read_entry(raw)
    except BadLineError as error:
        return _Asked(error.id, cost, Verdict("malformed", detail=f"line {number}: {error}"))
    if isinstance(entry.todo, Verdict):
        return _Asked(entry.id, cost, entry.todo)
    return _Asked(entry.id, cost, verifier.sandbox.submit(entry.todo), entry.settle)


class _Progress:
    """What happens, on standard error: one line that changes in a terminal, a line now and then elsewhere."""

    def __init__(self, tier: str) -> None:
        self._counts: Counter[str] = Counter()
        self._live = sys.stderr.isatty()
        self._every = 0.2 if self._live else 10.0
        self._tier = tier
        self._start = self._shown = time.monotonic()

    def count(self, status: str) -> None:
        self._counts[status] += 1
        now = time.monotonic()
        if now - self._shown >= self._every:
            self._shown = now
            self._show("\r" if self._live else "", "" if self._live else "\n")

    def finish(self) -> int:
        """The last word, and the exit code."""
        self._show("\r" if self._live else "", "\n")
        return 1 if self._counts["infra_error"] else 0

    def _show(self, before: str, after: str) -> None:
        total, seconds = self._counts.total(), time.monotonic() - self._start
        parts = ", ".join(f"{status} {count}" for status, count in self._counts.most_common())
        rate = f"{total / seconds:.0f}/s" if seconds > 0 else "-"
        text = f"{total} lines in {seconds:.1f} s ({rate}), isolation {self._tier}: {parts or 'nothing to do'}"
        with contextlib.suppress(BrokenPipeError):  # nobody watches: the verdicts still matter
            print(f"{before}{text}", end=after, file=sys.stderr, flush=True)
