"""One question: does a program pass its tests? Everything is compared in this process, and never in the program's."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from redqueen.jail.cases import Case, Test, cases_of
from redqueen.jail.job import (
    BENCHMARKS,
    MAX_INPUTS,
    MAX_LIMIT,
    Job,
    Limits,
    Outcome,
    Profile,
    Status,
    check_limits,
    type_of,
)
from redqueen.jail.literals import parse_literal, to_literal
from redqueen.jail.pool import Sandbox
from redqueen.jail.worker import encode_arguments

# Whole programs in the jail: what they print, or what expressions over their names are worth.

# A partial has no line of its own, so that the lines of an error are the program's.
_CALLED = "import functools, whole_program\nrun = functools.partial(whole_program.{}, __builtins__)"
# What some editors write in front of a file. Python skips it in a file, and refuses it in a text.
_MARK = "\ufeff"
MOST_OUTPUT = 1 << 23
"""The bytes that a script may print, and those of the text of a value."""
_MOST_ERRORS = 1 << 15
"""More than what is kept of standard error."""
_LITERAL = 5
"""What a program prints is written out as a literal: at most four characters a byte, and some for what is around it."""
_MOST_PRINTED = MAX_LIMIT // _LITERAL - _MOST_ERRORS


PROGRAMS: Profile = replace(
    BENCHMARKS,
    modules=(
        *BENCHMARKS.modules,
        "whole_program",  # loaded before the first fork, so that no child has to compile it
        "traceback",  # the text that verl puts around a function imports it
        "time",  # contest programs import it; its clocks are refused all the same
    ),
    limits=replace(BENCHMARKS.limits, output_bytes=MOST_OUTPUT),
)
"""The rules for whole programs: those for solutions of benchmarks, and what such programs import at their top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """What a program wrote, and how it left."""

    stdout: str
    stderr: str
    """The last part of it is the traceback of an exception that the program did not catch."""
    code: int
    """Its exit code: 0, what it gave `sys.exit`, or 1 after an exception."""


def script_job(source: str, stdin: str, limits: Limits | None = None) -> Job:
    """Returns the job that runs a program on a standard input; `printed` reads its outcome. For `PROGRAMS`.

    It may print `output_bytes` of the limits. Raises ValueError if that is more than an answer can hold.
    """
    limits = limits or PROGRAMS.limits
    most = limits.output_bytes
    if most > _MOST_PRINTED:
        raise ValueError(f"Limits.output_bytes must be at most {_MOST_PRINTED:,} for a script")
    longer = replace(limits, output_bytes=_LITERAL * (most + _MOST_ERRORS))
    script = encode_arguments((source.removeprefix(_MARK), stdin, most))
    return Job(_CALLED.format("run_script"), (script,), limits=longer)


def printed_job(source: str, stdins: Sequence[str], *, validate: bool = False) -> Job:
    """Returns the job that runs a program on several standard inputs, in one process; its outputs are what it printed.

    For `PROGRAMS`. Raises ValueError if there are more than `MAX_INPUTS`.
    """
    source = source.removeprefix(_MARK)
    inputs = tuple(encode_arguments((source, stdin, MOST_OUTPUT)) for stdin in stdins)
    return Job(_CALLED.format("run_printed"), inputs, validate=validate)


def values_job(
    source: str,
    asked: Sequence[tuple[str, bytes | None]],
    limits: Limits | None = None,
    *,
    validate: bool = False,
    accepts: Callable[[int, str], bool] | None = None,
) -> Job:
    """Returns the job that loads a program and gives values, in order. For `PROGRAMS`.

    Each is what an expression over the program's names is worth or, with encoded arguments, what a function returns.

    Raises ValueError if there are more than `MAX_INPUTS` of them.
    """
    if len(asked) > MAX_INPUTS:
        raise ValueError(f"at most {MAX_INPUTS} tests, not {len(asked)}")
    source = source.removeprefix(_MARK)
    inputs = tuple(encode_arguments((source, text, arguments)) for text, arguments in asked)
    return Job(_CALLED.format("run_value"), inputs, validate=validate, limits=limits, accepts=accepts)


def printed(outcome: Outcome) -> ProgramResult | None:
    """Returns what a script wrote, or None if the outcome holds no such thing: it failed, or forged its output."""
    if outcome.status != "ok" or len(outcome.outputs) != 1:
        return None
    match parse_literal(outcome.outputs[0], 4 * len(outcome.outputs[0])):
        case (str(out), str(errors), int(code)):
            # It may be anything: the program shares a process with what says it.
            return ProgramResult(stdout=out, stderr=errors, code=code & 255)
        case _:
            return None


JUDGED: Limits = replace(PROGRAMS.limits, cpu_s=6.0, wall_s=60.0, memory_mb=512)
"""What a program may use unless the caller says otherwise: for all its calls together, and for each script."""

_NO_PROGRAM = ("SyntaxError", "IndentationError", "TabError")
_LEFT_BY: dict[str, Status] = {
    **dict.fromkeys(_NO_PROGRAM, "malformed"),
    "ForbiddenError": "forbidden",
    "OutputError": "oversize",
}
"""What it means that a script was ended by an exception of this name. All others are its own errors."""


def judge(
    program: str, tests: Sequence[Test], *, sandbox: Sandbox | None = None, limits: Limits | None = None
) -> Outcome:
    r"""Runs a program against its tests. The outcome's status is `ok` if it passes all of them.

    A test is a `Call`, a `Script`, or the text `assert EXPRESSION == LITERAL`. Up to 256 calls and assertions of a
    program share one process and run first; each script has its own. The first test that fails decides: `wrong`, or
    what became of the program (`malformed`, `error`, `timeout`, `memory`, `forbidden`, ...). `infra_error` is the
    machine's fault and no verdict.

    `sandbox` is one of the profile `PROGRAMS`; without it, one is started at the first call and shared by this process.

    Raises ValueError for an argument of another type, for a test that no program can pass, and without any test. Raises
    IsolationError if this machine cannot isolate a program.

    >>> judge("def add(a, b):\n    return a - b", ["assert add(2, 2) == 4"])  # doctest: +SKIP
    Outcome(status='wrong', outputs=('0',), detail='test 0 gave 0', ...)
    """
    if not isinstance(cast("object", program), str):
        raise ValueError(f"a program must be a text, not {type_of(program)}")
    check_limits(limits)
    if sandbox is not None and not isinstance(cast("object", sandbox), Sandbox):
        raise ValueError(f"sandbox must be a Sandbox(PROGRAMS), not {type_of(sandbox)}")
    if sandbox is not None and sandbox.profile.entry != PROGRAMS.entry:
        raise ValueError("judge needs a sandbox of the profile PROGRAMS")
    limits = limits or JUDGED
    cases = cases_of(tests, limits.output_bytes)
    sandbox = sandbox or shared_sandbox()
    values = [case for case in cases if case.stdin is None]
    outcome = Outcome(status="ok")
    for start in range(0, len(values), MAX_INPUTS):
        if outcome.status == "ok":
            outcome = _values(sandbox, program, values[start : start + MAX_INPUTS], limits)
    for case in cases:
        if outcome.status == "ok" and case.stdin is not None:
            outcome = _script(sandbox, program, case, limits)
    return outcome


def _values(sandbox: Sandbox, program: str, cases: Sequence[Case], limits: Limits) -> Outcome:
    """Returns the outcome of the tests that ask for values."""
    asked = [(case.asked, case.arguments) for case in cases]
    # Each value is looked at when it comes: a program that is wrong already may have gigabytes more to give.
    job = values_job(program, asked, limits, accepts=lambda number, text: cases[number].accepts(text))
    outcome = sandbox.submit(job).result()
    if outcome.status == "wrong":
        return _missed(cases[len(outcome.outputs) - 1], outcome, outcome.outputs[-1])
    return _without_verdict(outcome)


def decided(cases: Sequence[Case], outcome: Outcome) -> Outcome:
    """Returns what a program's values, or the texts that it printed, say of the tests that asked for them."""
    for case, text in zip(cases, outcome.outputs, strict=False):
        # A wrong value decides, whatever the program did after it.
        if not case.accepts(text):
            return _missed(case, outcome, text)
    return _without_verdict(outcome)


def _missed(case: Case, outcome: Outcome, text: str) -> Outcome:
    """Returns the outcome of a program that gave another value."""
    return replace(outcome, status="wrong", detail=f"test {case.number} gave {_short(text)}")


def _without_verdict(outcome: Outcome) -> Outcome:
    """Returns the outcome of a program whose values, as far as it got, were right."""
    if outcome.status == "error" and outcome.detail.startswith(_NO_PROGRAM):
        return replace(outcome, status="malformed")
    return outcome


def _script(sandbox: Sandbox, program: str, case: Case, limits: Limits) -> Outcome:
    """Returns the outcome of one script; its output is what the program printed, as a literal."""
    where = f"test {case.number}"
    outcome = sandbox.submit(script_job(program, case.stdin or "", limits)).result()
    if outcome.status != "ok":
        return replace(outcome, detail=f"{where}: {outcome.detail}")
    wrote = printed(outcome)
    if wrote is None:
        return replace(outcome, status="error", outputs=(), detail=f"{where}: a forged result")
    outputs = (to_literal(wrote.stdout),)
    if wrote.code != 0:
        last_line = (wrote.stderr.strip().splitlines() or [f"exit code {wrote.code}"])[-1]
        status = _LEFT_BY.get(last_line.partition(":")[0], "error")
        return replace(outcome, status=status, outputs=outputs, detail=f"{where}: {_short(last_line)}")
    if not case.accepts_output(wrote.stdout):
        return replace(outcome, status="wrong", outputs=outputs, detail=f"{where} printed {_short(outputs[0])}")
    return replace(outcome, outputs=outputs)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


_lock = threading.Lock()
_shared: dict[int, Sandbox] = {}


def shared_sandbox() -> Sandbox:
    """Returns this process's sandbox of the profile `PROGRAMS`, which is started when it is first asked for."""
    with _lock:
        # A fork has its parent's dictionary, and must not use its parent's sandbox.
        sandbox = _shared.get(os.getpid())
        if sandbox is None:
            sandbox = _shared[os.getpid()] = Sandbox(PROGRAMS)
            atexit.register(sandbox.close)
        return sandbox
