"""Work: what a student writes on its way to an answer, and what a lesson in it is made of (`model.prompts=work`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from redqueen.records import Pair, Task
from redqueen.tasks.programs.tracing import ARROW

Run = Callable[[str, tuple[str, ...] | tuple[bytes, ...]], tuple[str, ...]]
"""(program, inputs) -> the outputs as far as the program got: it runs a program in the jail of its language."""


class Workings(Protocol):
    """Where the work of a lesson comes from."""

    def trace(self, task: Task, given: str) -> tuple[str, ...] | None:
        """Returns the lines of work of a task's program on an input; the last one ends with an arrow and the value.

        None if there are none.
        """
        ...

    def misses(self, task: Task) -> Sequence[Pair]:
        """Returns inputs that a student might try before the right one, with the outputs that they give."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedText:
    """A student's text, taken apart."""

    work: str
    """What is not judged; "" if there is none."""
    answer: str | None
    """What is judged; None if there is none."""


_MOST_ARROWS = 64


def after_arrow(text: str, is_value: Callable[[str], bool]) -> WorkedText:
    """Returns the value behind the last arrow of a text, and all before it as its work.

    A value may itself hold an arrow, in a string. So it is the shortest end of the last line that is a value.
    """
    text = text.strip()
    pieces = text.split("\n")[-1].split(ARROW)
    # No value holds so many arrows. To read all ends of a line that repeats one would take quadratic time.
    ends = [ARROW.join(pieces[first:]) for first in range(len(pieces) - 1, max(0, len(pieces) - _MOST_ARROWS), -1)]
    # Where no end is a value, the last piece is judged, and found to be none.
    answer = next(filter(is_value, ends), pieces[-1])
    return WorkedText(work=text.removesuffix(answer).removesuffix(ARROW).strip("\n"), answer=answer.strip() or None)
