"""One question: does a program pass its tests? Everything is compared in this process, and never in the program's."""

from __future__ import annotations

import ast
import atexit
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from redqueen.sandbox.job import Limits, Outcome
from redqueen.sandbox.literals import parse_literal, to_literal
from redqueen.sandbox.pool import Sandbox
from redqueen.sandbox.programs import PROGRAMS, printed, script_job, values_job

JUDGED: Limits = replace(PROGRAMS.limits, cpu_s=6.0, wall_s=60.0, memory_mb=512)
"""What a program may use unless the caller says otherwise: for all its calls together, and for each script."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the program, its arguments, and the value that it must return: `Call("add", (1, 2), 3)`.

    Arguments and value are plain builtin values. They are compared as Python's `==` does.
    """

    function: str
    arguments: tuple[Any, ...]
    expected: Any


@dataclass(frozen=True, slots=True)
class Script:
    r"""A standard input, and the standard output that the program must write: `Script("1 2\n", "3\n")`.

    White space at the ends of lines and of the whole output does not count.
    """

    stdin: str
    stdout: str


Test = Call | Script | str
_NO_PROGRAM = ("SyntaxError", "IndentationError", "TabError")


def judge(
    program: str, tests: Sequence[Test], *, sandbox: Sandbox | None = None, limits: Limits | None = None
) -> Outcome:
    r"""Runs a program against its tests. The outcome's status is `ok` if it passes all of them.

    A test is a `Call`, a `Script`, or the text `assert EXPRESSION == LITERAL`. All calls and assertions of a program
    share one process; each script has its own. The first test that fails decides: `wrong`, or what became of the
    program (`malformed`, `error`, `timeout`, `memory`, `forbidden`, ...). `infra_error` is the machine's fault and no
    verdict.

    `sandbox` is one of the profile `PROGRAMS`; without it, one is started at the first call and shared by this process.

    Raises ValueError for a test that is none of these, or without any test. Raises IsolationError if this machine
    cannot isolate a program.

    >>> judge("def add(a, b):\n    return a - b", ["assert add(2, 2) == 4"])  # doctest: +SKIP
    Outcome(status='wrong', outputs=('0',), detail='test 0 gave 0', ...)
    """
    if not tests:
        raise ValueError("a program cannot be judged without a test")
    if sandbox is not None and sandbox.profile.entry != PROGRAMS.entry:
        raise ValueError("judge needs a sandbox of the profile PROGRAMS")
    asked = [_Asked.of(number, test) for number, test in enumerate(tests)]
    sandbox = sandbox or shared_sandbox()
    limits = limits or JUDGED
    values = [test for test in asked if test.stdin is None]
    outcome = Outcome(status="ok")
    if values:
        outcome = _values(sandbox, program, values, limits)
    for test in asked:
        if outcome.status == "ok" and test.stdin is not None:
            outcome = _script(sandbox, program, test, limits)
    return outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A test, taken apart: what the jail is given, and what stays here."""

    number: int
    """Its place among the tests."""
    expression: str
    stdin: str | None
    """None: `expression` is evaluated."""
    expected: Any

    @staticmethod
    def of(number: int, test: Test) -> _Asked:
        match test:
            case Script(stdin=stdin, stdout=stdout):
                return _Asked(number=number, expression="", stdin=stdin, expected=stdout)
            case Call(function=function, arguments=arguments, expected=expected):
                if not all(name.isidentifier() for name in function.split(".")):
                    raise ValueError(f"test {number}: {function!r} is no name of a function")
                text = f"{function}({', '.join(to_literal(value) for value in arguments)})"
                return _Asked(number=number, expression=text, stdin=None, expected=expected)
            case str():
                expression, expected = _assertion(number, test)
                return _Asked(number=number, expression=expression, stdin=None, expected=expected)


def _assertion(number: int, text: str) -> tuple[str, Any]:
    """Returns the two sides of an assertion. Raises ValueError if it is not of the form that can be judged here."""
    try:
        statements = ast.parse(text.strip()).body
        match statements:
            case [ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]))]:
                # Lambdas, attributes and calls on the right would have to run, and that only the program's process can.
                return ast.unparse(left), ast.literal_eval(right)
            case _:
                pass
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise ValueError(
        f"test {number}: {text.strip()[:80]!r} is not `assert EXPRESSION == LITERAL`. Nothing else is judged, since a "
        "comparison inside the program's process can be forged by the program"
    )


def _values(sandbox: Sandbox, program: str, asked: Sequence[_Asked], limits: Limits) -> Outcome:
    """Returns the outcome of the tests that ask for values."""
    outcome = sandbox.submit(values_job(program, [test.expression for test in asked], limits)).result()
    for test, text in zip(asked, outcome.outputs, strict=False):
        # A wrong value decides, whatever the program did after it.
        if not _equal(parse_literal(text, limits.output_bytes), test.expected):
            return replace(outcome, status="wrong", detail=f"test {test.number} gave {_short(text)}")
    if outcome.status == "error" and outcome.detail.startswith(_NO_PROGRAM):
        return replace(outcome, status="malformed")
    return outcome


def _script(sandbox: Sandbox, program: str, asked: _Asked, limits: Limits) -> Outcome:
    """Returns the outcome of one script; its output is what the program printed, as a literal."""
    outcome = sandbox.submit(script_job(program, asked.stdin or "", limits)).result()
    if outcome.status != "ok":
        return replace(outcome, detail=f"test {asked.number}: {outcome.detail}")
    wrote = printed(outcome)
    if wrote is None:
        return replace(outcome, status="error", outputs=(), detail=f"test {asked.number}: a forged result")
    outputs = (to_literal(wrote.stdout),)
    if wrote.code != 0:
        last_line = (wrote.stderr.strip().splitlines() or [f"exit code {wrote.code}"])[-1]
        status = "malformed" if last_line.startswith(_NO_PROGRAM) else "error"
        return replace(outcome, status=status, outputs=outputs, detail=f"test {asked.number}: {_short(last_line)}")
    if _lines(wrote.stdout) != _lines(asked.expected):
        detail = f"test {asked.number} printed {_short(outputs[0])}"
        return replace(outcome, status="wrong", outputs=outputs, detail=detail)
    return replace(outcome, outputs=outputs)


def _equal(value: Any, expected: Any) -> bool:
    # Both are plain values, so that nothing of the program runs here. Comparing deep ones may still fail.
    try:
        return bool(value == expected)
    except RecursionError:
        return False


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


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
