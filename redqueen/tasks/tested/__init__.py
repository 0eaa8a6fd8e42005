"""Programs that have to pass tests: a prompt with tests, as people publish them (`docs/YOUR_TASKS.md`).

The language is Python as other people's tests ask for it: any names, whole scripts, and the wider list of modules.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from redqueen.base.plain_files import read_once, read_plain_text
from redqueen.jail import MAX_INPUTS, PROGRAMS, Job, LiteralError, Outcome
from redqueen.jail.judging import printed_job, values_job
from redqueen.records import Draft, Pair
from redqueen.tasks.kinds.calls import Calls
from redqueen.tasks.kinds.language import Half, SeedError, Words
from redqueen.tasks.kinds.work import Run
from redqueen.tasks.programs.normal_form import ENTRY, shape
from redqueen.tasks.python import PYTHON
from redqueen.tasks.tested.kind import PassTests
from redqueen.tasks.tested.tests import defined, expression, spelled, stdin_of

_KIND = "code_t"


class Tested(Calls):
    """Python whose inputs are what tests ask (see `redqueen.tasks.kinds.language.Language`)."""

    name = "python_tests"
    words = Words(
        name="Python",
        fence="python",
        function="",
        rules=(
            "A program defines functions, or reads standard input and prints. It is deterministic, ends quickly, and "
            "uses the pure part of the standard library: no files, no clock, no network."
        ),
    )
    profile = PROGRAMS
    identity = replace(PYTHON.identity, inputs=tuple(f"{ENTRY}({given})" for given in PYTHON.identity.inputs))

    def fingerprint(self, program: str) -> str:
        return PYTHON.fingerprint(program)

    def shape(self, program: str) -> str:
        # What its tests call is not known here, so no definition counts as unused.
        return shape(program)

    def tree(self, program: str) -> ast.Module | None:
        # The measures are of a function `f` and its arguments, and a test may ask for any expression.
        return None

    def job(
        self,
        program: str,
        inputs: Sequence[str],
        *,
        validate: bool = False,
        expected: tuple[bytes, ...] | None = None,
        one_processor: bool = False,
    ) -> Job | Outcome:
        del expected, one_processor
        try:
            scripts = [stdin_of(given) for given in inputs]
        except LiteralError as error:
            return Outcome(status="malformed", detail=str(error))
        if len(inputs) > MAX_INPUTS:
            return Outcome(status="malformed", detail=f"more than {MAX_INPUTS} tests")
        texts = [text for text in scripts if text is not None]
        if not texts:
            return values_job(program, [(given, None) for given in inputs], validate=validate)
        if len(texts) < len(scripts):
            return Outcome(status="malformed", detail="the tests of a script are standard inputs alone")
        return printed_job(program, texts, validate=validate)

    def trace(self, program: str, given: str, run: Run) -> tuple[str, ...] | None:
        def run_here(text: str, inputs: tuple[str, ...] | tuple[bytes, ...]) -> tuple[str, ...]:
            # The jail for whole programs calls `run`.
            return run(f"{text}\n{PROGRAMS.entry} = {ENTRY}\n", inputs)

        match expression(given):
            case ast.Call(func=ast.Name(id=called), args=arguments, keywords=[]) if called == ENTRY:
                return PYTHON.trace(program, ", ".join(map(ast.unparse, arguments)), run_here)
            case _:
                return None

    def input_identity(self, given: str) -> bytes:
        return spelled(given).encode("utf-8", "surrogatepass")

    def spell_input(self, given: str) -> str:
        return spelled(given)

    def call(self, given: str) -> str:
        return given

    def split_calls(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Separates a program from the lines below it that call what the last line calls."""
        lines = text.strip("\n").split("\n")
        start = lines[-1].partition("(")[0] + "("
        end = len(lines)
        while end and start.strip("(").isidentifier() and lines[end - 1].startswith(start):
            end -= 1
        calls = tuple(line.rstrip() for line in lines[end:])
        program = "\n".join(lines[:end]).rstrip()
        try:
            defined(calls)
        except LiteralError:
            return program, ()
        return program, calls

    def equation(self, given: str, output: str) -> str:
        return f"{given} == {output}"

    def read_equation(self, line: str) -> Pair | None:
        text = line.strip().removeprefix("assert ")
        try:
            tree = expression(text)
        except LiteralError:
            return None
        match tree:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[result]):
                return Pair(ast.get_source_segment(text, left) or "", ast.get_source_segment(text, result) or "")
            case _:
                return None

    def seeds(self, own: str | None = None) -> tuple[Draft, ...]:
        if own is None or not own.endswith(".jsonl"):
            return tuple(map(_as_tests, PYTHON.seeds(own)))
        return _with_program(Path(own))

    def reserved(self, half: Half | None = None) -> tuple[Draft, ...]:
        return tuple(map(_as_tests, PYTHON.reserved(half)))

    def is_reserved(self, program: str) -> bool:
        return PYTHON.is_reserved(program)


def _as_tests(draft: Draft) -> Draft:
    """Returns a program `f` with its arguments as one whose calls are tests."""
    return replace(draft, inputs=tuple(f"{ENTRY}({given})" for given in draft.inputs))


@read_once
def _with_program(file: Path) -> tuple[Draft, ...]:
    """Returns the tasks of an imported file that have a program of their own. Raises SeedError if none has."""
    try:
        lines = read_plain_text(file).splitlines()
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines if line.strip()]
        drafts = tuple(
            Draft(row["program"], tuple(row["inputs"]), row["message"])
            for row in rows
            if row["kind"] == _KIND and row["program"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SeedError(f"game.seeds={file} cannot be read: write it by redqueen tasks import ({error})") from error
    if not drafts:
        raise SeedError(f"{file} has no task of {_KIND} with a program of its own, so teachers have none to vary")
    return drafts


TESTED = Tested()
KINDS = (PassTests(_KIND, TESTED),)
