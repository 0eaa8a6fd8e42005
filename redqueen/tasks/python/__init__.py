"""The language Python, with the three kinds of tasks of Absolute Zero (Zhao et al. 2025).

Its programs define a function `f`, its values are literals, and its programs run in the jail.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path

from redqueen.jail import CodecError, Job, Outcome, parse_literal
from redqueen.records import Draft
from redqueen.tasks.kinds.abduction import Abduction
from redqueen.tasks.kinds.calls import Calls
from redqueen.tasks.kinds.deduction import Deduction
from redqueen.tasks.kinds.induction import Induction
from redqueen.tasks.kinds.language import Half, Words, halved, parse_block, read_own
from redqueen.tasks.kinds.work import Run
from redqueen.tasks.programs import ProgramError, parse
from redqueen.tasks.programs.normal_form import ENTRY, fingerprint, shape, without_remarks
from redqueen.tasks.programs.reached import reached, reads_remarks
from redqueen.tasks.programs.tracing import TracedProgram

# The programs that come with Python. The verifier computes their outputs.
#
# Seeds are written by hand, and made of templates by `tools/write_seeds.py`; a file holds blocks
# (`redqueen.tasks.kinds.language`). Held-out evaluation poses the reserved programs, and nothing else ever shows them
# to a model: they are seeds that were taken out, with all seeds of the same shape, and programs written for this
# purpose. No seed has the shape of one of them, and the warm start and the task bank refuse what a model writes in one
# of these shapes.

# The order of the files, and of the blocks in them, numbers the seeds. Draws by number depend on it.
FILES = ("numbers_lists.txt", "strings_dicts.txt", "by_hand.txt", "generated.txt")

IDENTITY = Draft(
    program="def f(x):\n    return x",
    inputs=("1", "'Hello World'", "[1, 2, 3]", "True", "{'a': 1}", "''", "-7", "(2, 'b')", "0.5", "None", "[]", "'x'"),
    message="return the input unchanged",
)
"""The one program that Absolute Zero starts from (Zhao et al. 2025, section 3.3.1), with inputs of our own."""


@cache
def seeds() -> tuple[Draft, ...]:
    """Returns all seed drafts in file order; each has a message and several inputs. None of them is reserved."""
    return read_blocks(FILES)


def read_blocks(names: Iterable[str]) -> tuple[Draft, ...]:
    """Returns the drafts of the files `names` of the seeds' folder, in order."""
    folder = resources.files("redqueen.tasks.python") / "seeds"
    drafts: list[Draft] = []
    for name in names:
        text = (folder / name).read_text(encoding="utf-8")
        drafts += [parse_block(block) for block in text.strip().split("\n\n")]
    return tuple(drafts)


def write_block(draft: Draft) -> str:
    """Returns the block that `parse_block` reads: the message, the program and its calls.

    A blank line would end the block, so the program's are left out. Raises ValueError if a blank line is part of a text
    in the program, if a line of it reads like one of the calls, or if it needs more than one line for its message.
    """
    lines = [line.rstrip() for line in draft.program.split("\n")]
    program = "\n".join(line for line in lines if line)
    block = "\n".join([f"# {draft.message}", program, *(f"{ENTRY}({given})" for given in draft.inputs)])
    if parse_block(block) != replace(draft, program=program) or not _same(program, draft.program):
        raise ValueError("it cannot be written in a seed file")
    return block


def _same(program: str, other: str) -> bool:
    """Returns whether two programs are one but for blank lines and the spaces at the ends of lines."""
    try:
        return ast.dump(ast.parse(program)) == ast.dump(ast.parse(other))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


RESERVED_FILES = ("reserved/taken_out.txt", "reserved/written.txt")


@cache
def reserved(half: Half | None = None) -> tuple[Draft, ...]:
    """Returns one half of the reserved drafts, or all of them, in file order.

    The halves take turns in the files, which go from simple to less simple programs, so both are equally hard.
    """
    return halved(read_blocks(RESERVED_FILES), half)


CELLS = "cells.json"


@cache
def seed_cells() -> Mapping[str, frozenset[str]]:
    """Returns the cells of all seed programs, whether a run plants them or not, by the name of the coverage."""
    text = (resources.files("redqueen.tasks.python") / "seeds" / CELLS).read_text(encoding="utf-8")
    return {name: frozenset(cells) for name, cells in json.loads(text).items()}


# An error would end the child, and with it the calls after it.
_CALL = f"""

_called = {ENTRY}


def {ENTRY}(*arguments):
    try:
        return True, _called(*arguments)
    except Exception as error:
        return False, type(error).__name__
"""


@cache
def _shipped() -> frozenset[str]:
    return frozenset(draft.program for draft in (*seeds(), *reserved()))


# A step asks for the same program several times.
@lru_cache(maxsize=4096)
def _shape(program: str) -> str:
    # A known program with code that can never run is known. The shipped ones have none, as a test shows, and to look
    # for it in all of them takes a second.
    if program in _shipped():
        return shape(program)
    try:
        return shape(reached(program))
    except (ProgramError, RecursionError):
        return shape(program)


def _reads_remarks(program: str) -> bool:
    try:
        return reads_remarks(program)
    # The jail says what is wrong with it.
    except (ProgramError, RecursionError):
        return False


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
    identity = IDENTITY

    def fingerprint(self, program: str) -> str:
        return fingerprint(program)

    def posed(self, program: str) -> str:
        return without_remarks(program)

    def shape(self, program: str) -> str:
        return _shape(program)

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
    ) -> Job | Outcome:
        # A value that no reader could know is no task.
        if validate and _reads_remarks(program):
            return Outcome(status="malformed", detail="it may read texts that students are not shown")
        return Job(program, tuple(inputs), validate=validate, expected=expected, one_processor=one_processor)

    def called(self, program: str) -> str:
        return program + _CALL

    def trace(self, program: str, given: str, run: Run) -> tuple[str, ...] | None:
        try:
            traced = TracedProgram(program)
            outputs = run(traced.instrumented, (given,))
            lines = traced.work(parse_literal(outputs[0])) if outputs else None
        except (ProgramError, CodecError, ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            # The program is too deep, or it has replaced what notes its values, `list` or `repr` say.
            return None
        return tuple(lines) if lines else None

    def seeds(self, own: str | None = None) -> tuple[Draft, ...]:
        return seeds() if own is None else read_own(Path(own))

    def reserved(self, half: Half | None = None) -> tuple[Draft, ...]:
        return reserved(half)


PYTHON = Python()


__all__ = ["ABDUCTION", "DEDUCTION", "INDUCTION", "KINDS", "NAMES", "PYTHON"]

DEDUCTION = Deduction("code_o", PYTHON)
ABDUCTION = Abduction("code_i", PYTHON)
INDUCTION = Induction("code_f", PYTHON)
KINDS = (DEDUCTION, ABDUCTION, INDUCTION)
NAMES = tuple(kind.name for kind in KINDS)
"""The names of the three kinds."""
