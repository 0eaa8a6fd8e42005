"""Whole programs in the jail: what they print, or what expressions over their names are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from redqueen.sandbox.child.whole_program import MOST_ERRORS, MOST_OUTPUT
from redqueen.sandbox.job import MAX_INPUTS, Job, Limits, Outcome
from redqueen.sandbox.literals import parse_literal
from redqueen.sandbox.profile import BENCHMARKS, Profile
from redqueen.sandbox.worker import encode_arguments

# A partial has no line of its own, so that the lines of an error are the program's.
_CALLED = "import functools, whole_program\nrun = functools.partial(whole_program.run, __builtins__)"
# What some editors write in front of a file. Python skips it in a file, and refuses it in a text.
_MARK = "\ufeff"


PROGRAMS: Profile = replace(
    BENCHMARKS,
    modules=(
        *BENCHMARKS.modules,
        "whole_program",  # loaded before the first fork, so that no child has to compile it
        "traceback",  # the text that verl puts around a function imports it
        "time",  # contest programs import it; its clocks are refused all the same
    ),
    # What a program prints is written out as a literal, where a byte is four signs at most.
    limits=replace(BENCHMARKS.limits, output_bytes=5 * (MOST_OUTPUT + MOST_ERRORS)),
)
"""The rules for whole programs: those for solutions of benchmarks, and what such programs import at their top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What a program wrote, and how it left."""

    stdout: str
    stderr: str
    """The last part of it is the traceback of an exception that the program did not catch."""
    code: int
    """Its exit code: 0, what it gave `sys.exit`, or 1 after an exception."""


def script_job(source: str, stdin: str, limits: Limits | None = None) -> Job:
    """Returns the job that runs a program on a standard input; `printed` reads its outcome. For `PROGRAMS`."""
    return Job(_CALLED, (encode_arguments((source.removeprefix(_MARK), stdin, None)),), limits=limits)


def values_job(source: str, expressions: Sequence[str], limits: Limits | None = None) -> Job:
    """Returns the job that loads a program and evaluates expressions over its names, in order. For `PROGRAMS`.

    Raises ValueError if there are more than `MAX_INPUTS` of them.
    """
    if len(expressions) > MAX_INPUTS:
        raise ValueError(f"at most {MAX_INPUTS} tests, not {len(expressions)}")
    source = source.removeprefix(_MARK)
    return Job(_CALLED, tuple(encode_arguments((source, None, text)) for text in expressions), limits=limits)


def printed(outcome: Outcome) -> Printed | None:
    """Returns what a script wrote, or None if the outcome holds no such thing: it failed, or forged its output."""
    if outcome.status != "ok" or len(outcome.outputs) != 1:
        return None
    match parse_literal(outcome.outputs[0], PROGRAMS.limits.output_bytes):
        case (str(out), str(errors), int(code)):
            # It may be anything: the program shares a process with what says it.
            return Printed(stdout=out, stderr=errors, code=code & 255)
        case _:
            return None
