"""The seed programs: by hand, and made of templates by `tools/write_seeds.py`. The verifier computes their outputs.

A file holds blocks (`redqueen.tasks.kinds.seed_files`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import resources

from redqueen.records import Draft
from redqueen.tasks.kinds.seed_files import parse_block
from redqueen.tasks.programs.normal_form import ENTRY

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
