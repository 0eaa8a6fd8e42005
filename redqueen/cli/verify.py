"""`redqueen verify`: judges proposals and attempts from a JSONL file; one verdict line for each line, in order."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, BinaryIO, TextIO, cast

from redqueen.base.futures import finished, then
from redqueen.config import SandboxConfig
from redqueen.errors import UserError
from redqueen.jail import MAX_INPUTS, LiteralError, OversizeError
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Answer, Draft, Pair, Proposal, Verdict
from redqueen.tasks.kinds import TaskKind, find, is_kind, names

# Reads one line of the input of `redqueen verify`: the question that it asks, or why it is a bad line.

# A line that has one of these without an answer is more likely an attempt that lost its answer than a proposal. Judging
# it as a proposal would report "valid" for something that was never asked.
_ONLY_ATTEMPTS = ("output", "hidden", "examples")


class BadLineError(ValueError):
    """A line that asks nothing that can be judged."""

    def __init__(self, id: str | int | None, reason: str) -> None:
        """Keeps the line's id, or None if it could not be read, so that the verdict can name it."""
        super().__init__(reason)
        self.id = id


class ExportedTaskError(BadLineError):
    """A line of a file that another command reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyEntry:
    """A line that can be judged."""

    id: str | int
    question: Proposal | Answer | Verdict
    """The question for the verifier, or the verdict if the line alone decides it."""


def read_entry(raw: bytes) -> VerifyEntry:
    """Reads a proposal `{"id", "kind", "program", "input"}`, or an attempt, which has an `"answer"`. Runs no program.

    With an answer, deduction needs `"output"`, abduction `"program"` and `"output"`, and induction `"hidden"`. If an
    abduction attempt has an `"input"`, the program has to give the output for it too. Other fields are ignored. Raises
    BadLineError if the line is no JSON object, or if a field is missing or of the wrong type.
    """
    fields = _fields(raw)
    name = fields.get("id")
    # In Python a bool is an int, but `true` as an id is a mistake.
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise BadLineError(None, '"id" must be a text or a whole number')
    if "inputs" in fields and "input" not in fields:
        raise ExportedTaskError(
            name, "a task of `redqueen tasks export`: use redqueen tasks import FILE, which checks such files"
        )
    try:
        kind = fields.get("kind")
        if not isinstance(kind, str) or not is_kind(kind) or find(kind).generated:
            raise BadLineError(name, f'"kind" must be one of {", ".join(names())}')
        question = _attempt(name, find(kind), fields) if "answer" in fields else _proposal(name, find(kind), fields)
    except OversizeError as error:
        question = Verdict(status="oversize", detail=str(error))
    except BadLineError as error:
        raise BadLineError(name, str(error)) from None
    return VerifyEntry(id=name, question=question)


def _proposal(name: str | int, kind: TaskKind, fields: dict[str, Any]) -> Proposal:
    for field in _ONLY_ATTEMPTS:
        if field in fields:
            raise BadLineError(name, f'"{field}" without "answer": neither a proposal nor an attempt')
    draft = Draft(_text(fields, "program"), (_text(fields, "input"),))
    # The line asks whether the program is valid, not whether it makes a good game: one input is enough.
    judged_as = kind.language.name if kind.shows_examples else kind.name
    return Proposal(id=str(name), kind=judged_as, author="", step=0, draft=draft)


def _attempt(name: str | int, kind: TaskKind, fields: dict[str, Any]) -> Answer:
    answer = _text(fields, "answer")
    if kind.shows_examples:
        pairs = tuple(_pairs(fields, "hidden"))
        if not 0 < len(pairs) <= MAX_INPUTS:
            raise BadLineError(name, f'"hidden" must hold 1 to {MAX_INPUTS} pairs')
    else:
        pairs = (Pair("", _text(fields, "output")),)
    inputs = tuple(pair.input for pair in pairs) if kind.shows_examples else ()
    program = ""
    if kind.runs_program:
        program = _text(fields, "program")
        inputs = (_text(fields, "input"),) if "input" in fields else ()
    # A bad input is the line's fault, and not that of the answer, which would fail on it.
    for text in inputs:
        try:
            kind.language.spell_input(text)
        except LiteralError as error:
            raise BadLineError(name, f"the recorded input: {error}") from None
    try:
        return replace(kind.answer(program, pairs, answer), inputs=inputs)
    except LiteralError as error:
        raise BadLineError(name, f"the expected output: {error}") from None


def _fields(raw: bytes) -> dict[str, Any]:
    if not raw.strip():
        raise BadLineError(None, "an empty line")
    try:
        fields = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        # ValueError is also raised for bytes that are no UTF-8 and for numbers with too many digits.
        raise BadLineError(None, f"not JSON: {str(error)[:200]}") from None
    if not isinstance(fields, dict):
        raise BadLineError(None, "not a JSON object")
    return cast("dict[str, Any]", fields)


def _text(fields: dict[str, Any], field: str) -> str:
    value = fields.get(field)
    if not isinstance(value, str):
        raise BadLineError(None, f'"{field}" is missing' if value is None else f'"{field}" must be a text')
    # What some editors write in front of a file: no part of a program or a value.
    return value.removeprefix("\ufeff")


def _pairs(fields: dict[str, Any], field: str) -> list[Pair]:
    items = fields.get(field)
    pairs: list[Pair] = []
    for item in cast("list[Any]", items) if isinstance(items, list) else []:
        texts = cast("list[Any]", item) if isinstance(item, list) else []
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise BadLineError(None, f'"{field}" must be a list of [input, output] texts')
        pairs.append(Pair(texts[0], texts[1]))
    return pairs


MAX_LINE_BYTES = 4 << 20
_IN_FLIGHT_BYTES = 32 << 20
_LINE_OVERHEAD = 2_048
"""Bytes that a short line costs in addition to its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line that has been read, and its verdict to come."""

    id: str | int | None
    cost: int
    verdict: Future[Verdict]


class _Window:
    """Back-pressure: reading stops while the lines between reading and writing hold too many bytes.

    It is wide, so that one program that takes its whole time limit does not leave the other workers idle.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._used = 0
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
    """Judges a whole file. Returns the exit code: 0 unless a line got `infra_error`, which is no verdict.

    Raises UserError if the file cannot be read, or if the verdicts cannot be written.
    """
    # Python has no stream where the descriptor was closed when it started (`>&-`).
    if not hasattr(sys.stdout, "write"):
        raise UserError("standard output is closed: there is nowhere to write the verdicts")
    config = SandboxConfig(workers=jobs or 0, unsafe_no_isolation=unsafe)
    try:
        # The file is never closed: closing would wait for the reading thread, which may be waiting for input.
        file = _open(source)
        with LocalVerifier(config) as verifier:
            progress = _Progress(verifier.tier)
            _copy(source, file, verifier, progress)
            _write("", flush=True)
    except BrokenPipeError:
        # The reader of our output (`head`, say) has left.
        _discard(sys.stdout)
        return 1
    return progress.finish()


def _open(source: str) -> BinaryIO:
    """Opens the file. Standard input gets a second object, because Python locks `sys.stdin` when it ends."""
    try:
        return open(0 if source == "-" else source, "rb", closefd=source != "-")
    except OSError as error:
        raise UserError(f"cannot read {source}: {error.strerror}") from None


def _write(text: str, *, flush: bool) -> None:
    """Writes to standard output. Raises BrokenPipeError if its reader has left, UserError if it takes no more."""
    try:
        sys.stdout.write(text)
        if flush:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard(sys.stdout)
        raise UserError(f"cannot write the verdicts: {error.strerror}") from None


def _discard(stream: TextIO) -> None:
    """Lets a stream that failed lead nowhere, so that Python's own flush at the end of the process does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _copy(source: str, file: BinaryIO, verifier: LocalVerifier, progress: _Progress) -> None:
    """Reads in a thread and writes in this one, so that a verdict does not wait for the next line to arrive."""
    window = _Window(_IN_FLIGHT_BYTES)
    lines: SimpleQueue[_Line | Exception | None] = SimpleQueue()

    def read() -> None:
        try:
            for number, raw in enumerate(_lines(file), 1):
                window.enter(len(raw) + _LINE_OVERHEAD)
                lines.put(_submit(number, raw, verifier))
            lines.put(None)
        except OSError as error:
            lines.put(UserError(f"cannot read {source}: {error.strerror}"))
        except Exception as error:  # noqa: BLE001 - the thread that writes raises it again
            lines.put(error)

    threading.Thread(target=read, daemon=True, name="reader").start()
    # Verdicts are written in the order of the lines, whichever was ready first. Output is flushed when no line waits,
    # so that a program that sends one line at a time gets its answer, and a long file is not flushed for every line.
    while (line := lines.get()) is not None:
        if isinstance(line, Exception):
            raise line
        verdict = line.verdict.result()
        fields = {
            "id": line.id,
            "status": verdict.status,
            "output": verdict.output,
            "detail": verdict.detail,
            "cpu_ms": round(verdict.cpu_ms, 3),
        }
        window.leave(line.cost)
        _write(json.dumps(fields) + "\n", flush=lines.empty())
        progress.count(verdict.status)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yields the lines without their ends. Of a line that is too long it yields the first bytes."""
    # Two bytes more than allowed: then the longest good line still fits with its \r\n, and a longer line can be told
    # from it by its length. The rest of a longer line is read in pieces, so no line can fill the memory.
    while line := file.readline(MAX_LINE_BYTES + 2):
        if not line.endswith(b"\n"):
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(1 << 20)
        yield line.rstrip(b"\r\n")


def _submit(number: int, raw: bytes, verifier: LocalVerifier) -> _Line:
    """Hands the question of line `number` to the verifier. A bad line is `malformed`."""
    name = None
    try:
        if len(raw) > MAX_LINE_BYTES:
            raise BadLineError(None, f"more than {MAX_LINE_BYTES} bytes")
        entry = read_entry(raw)
        name = entry.id
        question = entry.question
    except BadLineError as error:
        # A whole file of them is a mistake that no verdict would explain.
        if number == 1 and isinstance(error, ExportedTaskError):
            raise UserError(f"line 1 is {error} and turns them into seeds") from None
        name = error.id
        question = Verdict(status="malformed", detail=f"line {number}: {error}")
    if isinstance(question, Verdict):
        verdict = finished(question)
    elif isinstance(question, Proposal):
        verdict = then(verifier.judge_proposal(question), lambda judged: judged[0])
    else:
        verdict = verifier.judge_answer(question)
    return _Line(id=name, cost=len(raw) + _LINE_OVERHEAD, verdict=verdict)


class _Progress:
    """Shows progress on standard error: one changing line in a terminal, else a new line every ten seconds."""

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
        """Shows the final counts. Returns the exit code."""
        self._show("\r" if self._live else "", "\n")
        return 1 if self._counts["infra_error"] else 0

    def _show(self, before: str, after: str) -> None:
        total = self._counts.total()
        seconds = time.monotonic() - self._start
        counts = ", ".join(f"{status} {count}" for status, count in self._counts.most_common())
        rate = f"{total / seconds:.0f}/s" if seconds > 0 else "-"
        text = f"{total} lines in {seconds:.1f} s ({rate}), isolation {self._tier}: {counts or 'nothing to do'}"
        # The verdicts matter even if the progress cannot be seen, so a standard error that fails is no reason to stop.
        try:
            print(f"{before}{text}", end=after, file=sys.stderr, flush=True)
        except OSError:
            _discard(sys.stderr)
