"""Whole programs in the jail: what they print, or what expressions over their names are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from redqueen.jail.job import MAX_INPUTS, Job, Limits, Outcome
from redqueen.jail.literals import parse_literal
from redqueen.jail.profile import BENCHMARKS, Profile
from redqueen.jail.worker import encode_arguments

# A partial has no line of its own, so that the lines of an error are the program's.
_CALLED = "import functools, whole_program\nrun = functools.partial(whole_program.{}, __builtins__)"
# What some editors write in front of a file. Python skips it in a file, and refuses it in a text.
_MARK = "\ufeff"
MOST_OUTPUT = 1 << 23
"""The bytes that a script may print, and those of the text of a value."""
_MOST_ERRORS = 1 << 15
"""More than what is kept of standard error."""
_LITERAL = 5
"""What a program prints is written out as a literal, where a byte is four signs at most."""


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

    It may print `output_bytes` of the limits.
    """
    limits = limits or PROGRAMS.limits
    most = limits.output_bytes
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
    source: str, asked: Sequence[tuple[str, bytes | None]], limits: Limits | None = None, *, validate: bool = False
) -> Job:
    """Returns the job that loads a program and gives values, in order. For `PROGRAMS`.

    Each is what an expression over the program's names is worth or, with encoded arguments, what a function returns.

    Raises ValueError if there are more than `MAX_INPUTS` of them.
    """
    if len(asked) > MAX_INPUTS:
        raise ValueError(f"at most {MAX_INPUTS} tests, not {len(asked)}")
    source = source.removeprefix(_MARK)
    inputs = tuple(encode_arguments((source, text, arguments)) for text, arguments in asked)
    return Job(_CALLED.format("run_value"), inputs, validate=validate, limits=limits)


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
