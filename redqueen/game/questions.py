r"""Tasks as a person writes them. `redqueen ask` reads this text, and `redqueen show` writes it.

code_o, predict the output     code_i, find an input          code_f, write the function
def f(x):                      def f(x):                      # double the number
    return x * 2                   return x * 2               f(1) == 2
f(4) == ?                      f(?) == 8                      f(3) == 6
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from redqueen.errors import UserError
from redqueen.records import Kind, Pair, Task

_OUTPUT = re.compile(r"f\((.*)\)\s*==\s*\?")
_INPUT = re.compile(r"f\(\s*\?\s*\)\s*==\s*(\S.*)")
_HELP = (
    "end a program with a line `f(4) == ?` or `f(?) == 8`, or write examples `f(1) == 2`, one a line, below a line "
    "`# what to do`"
)


class QuestionError(UserError):
    """A text that asks nothing; the message says how to ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A task as a person wrote it, of which nothing has been run or checked yet."""

    kind: Kind
    program: str
    """The program; "" for code_f."""
    pairs: tuple[Pair, ...]
    """The examples of code_f, or one pair; what is asked for is "" in it."""
    message: str


def read_question(text: str) -> Question:
    """Reads a question. Raises QuestionError if the text is none."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise QuestionError(f"nothing is asked: {_HELP}")
    last = lines[-1].strip()
    program = "\n".join(lines[:-1]).rstrip()
    # `f(?) == 8` first: the other pattern would take the mark for an input.
    if match := _INPUT.fullmatch(last):
        return Question(kind="code_i", program=_needed(program), pairs=(Pair("", match[1]),), message="")
    if match := _OUTPUT.fullmatch(last):
        return Question(kind="code_o", program=_needed(program), pairs=(Pair(match[1], ""),), message="")
    words = [line for line in lines if line.startswith("#")]
    examples = [line for line in lines if line and not line.startswith("#")]
    pairs = [_example(line) for line in examples]
    if len(pairs) < 2:
        raise QuestionError("at least two examples are needed: the first half is shown, the others judge the answer")
    message = " ".join(line.lstrip("#").strip() for line in words)
    return Question(kind="code_f", program="", pairs=tuple(pairs), message=message or "see the examples")


def write_question(task: Task) -> str:
    """Returns the text that asks for what `task` asks. Of code_f it has all examples: shown ones first, then hidden."""
    if task.kind == "code_f":
        message = "\n".join(f"# {line}" for line in task.message.splitlines())
        examples = "\n".join(f"f({pair.input}) == {pair.output}" for pair in task.pairs)
        return f"{message}\n{examples}"
    pair = task.pairs[0]
    if task.kind == "code_o":
        return f"{task.program}\nf({pair.input}) == ?"
    return f"{task.program}\nf(?) == {pair.output}"


def _needed(program: str) -> str:
    if not program:
        raise QuestionError("the program is missing: write it above the line with the question mark")
    return program


def _example(line: str) -> Pair:
    """Reads `f(1, 2) == 3`. Raises QuestionError if the line is no such comparison."""
    # A text in the arguments may hold "==" or brackets, so the line is parsed and not split.
    try:
        tree = ast.parse(line.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    match tree:
        case ast.Compare(left=ast.Call(func=ast.Name(id="f")) as call, ops=[ast.Eq()], comparators=[result]):
            written = ast.get_source_segment(line.strip(), call) or ""
            arguments = written.partition("(")[2].rpartition(")")[0]
            return Pair(arguments.strip(), ast.get_source_segment(line.strip(), result) or "")
        case _:
            raise QuestionError(f"cannot read '{line}' as a question: {_HELP}")
