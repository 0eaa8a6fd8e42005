"""One question: does a program pass its tests? Everything is compared in this process, and never in the program's."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from redqueen.jail.cases import Case, Test, cases_of
from redqueen.jail.job import MAX_INPUTS, Limits, Outcome, Status
from redqueen.jail.literals import to_literal
from redqueen.jail.pool import Sandbox
from redqueen.jail.programs import PROGRAMS, printed, script_job, values_job

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
    program share one process; each script has its own. The first test that fails decides: `wrong`, or what became of
    the program (`malformed`, `error`, `timeout`, `memory`, `forbidden`, ...). `infra_error` is the machine's fault and
    no verdict.

    `sandbox` is one of the profile `PROGRAMS`; without it, one is started at the first call and shared by this process.

    Raises ValueError for a test that is none of these or that no program can pass, and without any test. Raises
    IsolationError if this machine cannot isolate a program.

    >>> judge("def add(a, b):\n    return a - b", ["assert add(2, 2) == 4"])  # doctest: +SKIP
    Outcome(status='wrong', outputs=('0',), detail='test 0 gave 0', ...)
    """
    if not isinstance(cast("object", program), str):
        raise ValueError(f"a program must be a text, not {type(program).__name__}")
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
    return decided(cases, sandbox.submit(values_job(program, asked, limits)).result())


def decided(cases: Sequence[Case], outcome: Outcome) -> Outcome:
    """Returns what a program's values, or the texts that it printed, say of the tests that asked for them."""
    for case, text in zip(cases, outcome.outputs, strict=False):
        # A wrong value decides, whatever the program did after it.
        if not case.accepts(text):
            return replace(outcome, status="wrong", detail=f"test {case.number} gave {_short(text)}")
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
