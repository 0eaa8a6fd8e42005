"""Python: its programs define a function `f`, its values are literals, and its programs run in the jail."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from redqueen.jail import CodecError, Job, parse_literal
from redqueen.records import Draft
from redqueen.tasks.kinds.calls import Calls
from redqueen.tasks.kinds.language import Half, Words
from redqueen.tasks.kinds.seed_files import read_own
from redqueen.tasks.kinds.work import Run
from redqueen.tasks.programs.normal_form import ENTRY, fingerprint, shape, without_remarks
from redqueen.tasks.programs.tracing import TracedProgram
from redqueen.tasks.programs.trees import ProgramError, parse
from redqueen.tasks.python import seeds

# An error would end the child, and with it the calls after it.
_CALL = f"""

_called = {ENTRY}


def {ENTRY}(*arguments):
    try:
        return True, _called(*arguments)
    except Exception as error:
        return False, type(error).__name__
"""


class Python(Calls):
    """The language of the paper (see `redqueen.tasks.kinds.language.Language`)."""

    name = "python"
    words = Words(
        name="Python",
        fence="python",
        function=f"`{ENTRY}`",
        rules=(
            "The program defines a function `f`; it is deterministic, ends quickly, prints nothing, reads no files and "
            "uses at most pure modules such as math, re, itertools or collections. Inputs and outputs are Python "
            "literals."
        ),
    )
    prefix = f"def {ENTRY}("
    identity = seeds.IDENTITY

    def fingerprint(self, program: str) -> str:
        return fingerprint(program)

    def posed(self, program: str) -> str:
        return without_remarks(program)

    def shape(self, program: str) -> str:
        return shape(program)

    def tree(self, program: str) -> ast.Module:
        return parse(program)

    def job(
        self,
        program: str,
        inputs: Sequence[str],
        *,
        validate: bool = False,
        expected: tuple[bytes, ...] | None = None,
        one_processor: bool = False,
    ) -> Job:
        return Job(program, tuple(inputs), validate=validate, expected=expected, one_processor=one_processor)

    def called(self, program: str) -> str:
        return program + _CALL

    def trace(self, program: str, given: str, run: Run) -> tuple[str, ...] | None:
        try:
            traced = TracedProgram(program)
            outputs = run(traced.instrumented, (given,))
            lines = traced.work(parse_literal(outputs[0])) if outputs else None
        except (ProgramError, CodecError, ValueError, RecursionError):
            # The program is too deep, or it has replaced what notes its values.
            return None
        return tuple(lines) if lines else None

    def seeds(self, own: str | None = None) -> tuple[Draft, ...]:
        return seeds.seeds() if own is None else read_own(Path(own))

    def reserved(self, half: Half | None = None) -> tuple[Draft, ...]:
        return seeds.reserved(half)


PYTHON = Python()
