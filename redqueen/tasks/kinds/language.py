"""A language: what a program is, how it is run, and when two values are equal. Kinds of tasks ask it for that."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from redqueen.base.plain_files import read_once, read_plain_text
from redqueen.errors import UserError
from redqueen.jail import Job, Outcome, Profile
from redqueen.records import Draft, Pair
from redqueen.tasks.kinds.work import Run
from redqueen.tasks.programs.normal_form import split_calls

T = TypeVar("T")
Half = Literal["selection", "report"]
"""A half of the reserved programs. `selection` is what the fitness `held_out` scores by; selection never sees `report`,
which is what is reported."""


def halved(items: Sequence[T], half: Half | None) -> tuple[T, ...]:
    """Returns a half of some reserved items, which take turns, or all of them."""
    if half is None:
        return tuple(items)
    return tuple(items[0::2] if half == "selection" else items[1::2])


class SeedError(UserError):
    """A file of seed programs that cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a chat prompt calls the things of a language. A model reads these texts."""

    name: str
    """The language, e.g. `Python`: "a Python program", "a Python literal"."""
    fence: str
    """The name of the fenced block that holds a program."""
    function: str
    """What a program defines, e.g. `f`."""
    rules: str
    """Sentences on what a program may do, and what inputs and outputs are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A named configuration that comes with a language: `redqueen train NAME`."""

    name: str
    sentence: str
    """What it trains, for the list of recipes."""
    settings: str
    """What differs from the defaults, as a user writes it: `game.kinds=code_o,code_i run.steps=40`."""


class Language(Protocol):
    """A language whose programs run exactly.

    Inputs and outputs are texts. An input is what stands between the brackets of a call: an argument list.
    """

    name: str
    """What it is called, e.g. `python`. A program with all its inputs, which is a task of no kind yet, has it as its
    kind."""
    words: Words
    """What chat prompts say."""
    prefix: str
    """The beginning of each program, which completion prompts write for the member."""
    profile: Profile
    """What its programs may do in the sandbox."""
    identity: Draft
    """The program that returns its input, from which Absolute Zero starts."""
    warm_starts: Mapping[str, Path]
    """The folders of the adapters for the bundled base that members start near, by the format of the prompts; without
    any of its own they start near those that come with Red Queen."""

    # The text of programs.
    def fingerprint(self, program: str) -> str:
        """Returns a hash that is equal for two spellings of one program."""
        ...

    def posed(self, program: str) -> str:
        """Returns a program as a student sees it: without remarks, in which its author could tell the answer."""
        ...

    def shape(self, program: str) -> str:
        """Returns a hash that is equal for programs that are alike up to names and constants."""
        ...

    def tree(self, program: str) -> ast.Module | None:
        """Returns a valid program as a syntax tree of its own, by which its complexity and its features are measured.

        None if the measures of this project do not apply to the language.
        """
        ...

    # Running them.
    def job(
        self,
        program: str,
        inputs: Sequence[str],
        *,
        validate: bool = False,
        expected: tuple[bytes, ...] | None = None,
        one_processor: bool = False,
    ) -> Job | Outcome:
        """Returns the job that runs a program on inputs, or what came of it where no sandbox is needed.

        `validate` asks whether the outputs repeat; `expected` are the identities of the right outputs; `one_processor`
        keeps two runs of one program from being told apart by where they run.
        """
        ...

    def called(self, program: str) -> str | None:
        """Returns a program that calls this one, and gives whether it ended with what it gave or with an error's name.

        None if the behaviour of programs on foreign inputs cannot be compared (`redqueen.method.behaviour`).
        """
        ...

    def trace(self, program: str, given: str, run: Run) -> tuple[str, ...] | None:
        """Returns the work of a program on an input, a line for each thing that is worked out (`tasks/kinds/work.py`).

        None if the language has none, or not for this one. `run` runs programs in the jail.
        """
        ...

    # Values.
    def identity_of(self, value: str) -> bytes:
        """Returns bytes that are equal for equal values. Raises CodecError if the text is no value."""
        ...

    def spell(self, value: str) -> str:
        """Returns the one spelling of a value. Raises CodecError if the text is none."""
        ...

    def input_identity(self, given: str) -> bytes:
        """Returns bytes that are equal for equal inputs. Raises CodecError if the text is no input."""
        ...

    def spell_input(self, given: str) -> str:
        """Returns the one spelling of an input. Raises CodecError if the text is none."""
        ...

    # Completion prompts, which look like a file of the language.
    def comment(self, text: str) -> str:
        """Returns one line of comment."""
        ...

    def uncomment(self, line: str) -> str:
        """Returns a line without the mark of a comment."""
        ...

    def call(self, given: str) -> str:
        """Returns the call with an input, e.g. `f(3)`."""
        ...

    def split_calls(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Returns the program in a text and the inputs of the calls below it; no input if a line below is no call."""
        ...

    def ask_output(self, given: str) -> str:
        """Returns a line below a program that an output completes, up to where the output begins."""
        ...

    def ask_input(self, output: str) -> str:
        """Returns a line below a program that an input completes, up to where the input begins."""
        ...

    def write_input(self, given: str) -> str:
        """Returns an input as it completes the line of `ask_input`."""
        ...

    def read_input(self, text: str) -> str | None:
        """Returns the input that completes the line of `ask_input`, None if the text does not end it."""
        ...

    # Questions of a person (`redqueen ask`).
    def equation(self, given: str, output: str) -> str:
        """Returns a line that says what an input gives, e.g. `f(4) == 8`."""
        ...

    def read_equation(self, line: str) -> Pair | None:
        """Reads such a line; None if it is none."""
        ...

    def read_output_gap(self, line: str) -> str | None:
        """Returns the input of a line that asks for the output, e.g. `4` of `f(4) == ?`; None if it does not."""
        ...

    def read_input_gap(self, line: str) -> str | None:
        """Returns the output of a line that asks for an input, e.g. `8` of `f(?) == 8`; None if it does not."""
        ...

    # The programs that come with it.
    def seeds(self, own: str | None = None) -> tuple[Draft, ...]:
        """Returns the seed programs: the shipped ones, or those of a user's file. Raises SeedError."""
        ...

    def drawn(self, rng: random.Random) -> Draft | None:
        """Returns a random program with inputs, for lessons beyond the seeds; None if the language draws none."""
        ...

    def reserved(self, half: Half | None = None) -> tuple[Draft, ...]:
        """Returns one half of the reserved programs, or all: nothing but an evaluation shows them to a model."""
        ...

    def is_reserved(self, program: str) -> bool:
        """Returns whether a program is similar to a reserved one, up to names and constants. Any text may be asked."""
        ...


# Files of seed programs: blocks separated by blank lines, each a message, a program and its calls.
#
# A block is a line `# message`, the program, then one line `f(<arguments>)` per input.

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
    except OSError as error:
        raise SeedError(f"game.seeds={file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise SeedError(f"game.seeds={file} is not UTF-8 text: save it in that encoding") from None
    drafts: list[Draft] = []
    for line, block in _blocks(text):
        try:
            drafts.append(parse(block))
        except ValueError:
            raise SeedError(
                f"{file}, line {line}: no seed. {form}; a blank line ends it{_of_rows(file, text)}"
            ) from None
    if not drafts:
        raise SeedError(f"{file} holds no seed {programs}")
    return tuple(drafts)


def _of_rows(file: Path, text: str) -> str:
    """Returns what to do with a file that holds rows and no seeds; "" for any other."""
    if text.lstrip().startswith("{"):
        return f". It holds rows of JSON: import them, by redqueen tasks import {file} --out FILE, and give that file"
    if file.suffix in (".csv", ".tsv"):
        return ". A table must be rows of JSON first, one object a line, and then redqueen tasks import reads it"
    return ""


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
