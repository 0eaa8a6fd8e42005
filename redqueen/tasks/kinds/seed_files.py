"""Files of seed programs: blocks separated by blank lines, each a message, a program and its calls.

A block is a line `# message`, the program, then one line `f(<arguments>)` per input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from redqueen.base.plain_files import read_once, read_plain_text
from redqueen.records import Draft
from redqueen.tasks.kinds.language import SeedError
from redqueen.tasks.programs.normal_form import split_calls

FORM = "A seed is a line `# message`, a program, and lines `f(<arguments>)`"


def parse_block(block: str) -> Draft:
    """Reads one block. Raises ValueError if a part is missing."""
    first, _, rest = block.strip().partition("\n")
    program, inputs = split_calls(rest)
    if not first.startswith("# ") or not program or not inputs:
        raise ValueError(f"not a seed block: {block[:60]!r}")
    return Draft(program, inputs, first[2:])


@read_once
def read_own(
    file: Path, parse: Callable[[str], Draft] = parse_block, form: str = FORM, programs: str = "programs"
) -> tuple[Draft, ...]:
    """Returns the drafts of a user's file. Raises SeedError, which names the line, if it cannot be read.

    A language with blocks of another form gives its own `parse`, which raises ValueError, and says what the form is.
    """
    try:
        text = read_plain_text(file)
    except (OSError, UnicodeDecodeError) as error:
        raise SeedError(f"game.seeds={file} cannot be read: {error}") from error
    drafts: list[Draft] = []
    for line, block in _blocks(text):
        try:
            drafts.append(parse(block))
        except ValueError:
            raise SeedError(f"{file}, line {line}: no seed. {form}; a blank line ends it") from None
    if not drafts:
        raise SeedError(f"{file} holds no seed {programs}")
    return tuple(drafts)


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yields each block of a text with the number of its first line. A line of spaces is a blank one."""
    block: list[str] = []
    # The text ends like a block does.
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.strip():
            block.append(line)
        elif block:
            yield number - len(block), "\n".join(block)
            block = []
