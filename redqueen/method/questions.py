r"""Tasks as a person writes them. `redqueen ask` reads this text, and `redqueen show` writes it.

deduction                      abduction                      induction
def f(x):                      def f(x):                      # double the number
    return x * 2                   return x * 2               f(1) == 2
f(4) == ?                      f(?) == 8                      f(3) == 6
"""

from __future__ import annotations

from collections.abc import Iterable

from redqueen.records import Kind, Task
from redqueen.tasks.kinds import Question, QuestionError, find, find_or_plain, languages, names

__all__ = ["Question", "QuestionError", "read_question", "write_question"]

_HELP = (
    "end a program with a line `f(4) == ?` or `f(?) == 8`, or write examples `f(1) == 2`, one a line, below a line "
    "`# what to do`"
)


def read_question(text: str, first: Iterable[Kind] = ()) -> Question:
    """Reads a question of any kind, and of the kinds `first` where several can be meant.

    Raises QuestionError if the text is none.
    """
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise QuestionError(f"nothing is asked: {_HELP}")
    for name in dict.fromkeys([*first, *names()]):
        question = find(name).read_question(lines)
        if question is not None:
            return question
    raise QuestionError(f"cannot read '{_unreadable(lines)}' as a question: {_HELP}")


def write_question(task: Task) -> str:
    """Returns the text that asks for what `task` asks."""
    return find_or_plain(task.kind).write_question(task)


def _unreadable(lines: list[str]) -> str:
    """Returns the first line that is neither a comment nor an example in any language."""
    for line in lines:
        readable = any(
            line.startswith(language.comment("").strip()) or language.read_equation(line)
            for language in languages(names())
        )
        if line and not readable:
            return line
    return lines[-1]
